"""A corpus through the network, batch by batch; what is left of it are sums, which are added up text by text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from attncli.analysis.statistics import USUAL, Counting, Statistics, Sums
from attncli.analysis.window_sums import Part
from attncli.corpus.batch_sums import BatchSums
from attncli.corpus.packed import batches, groups
from attncli.corpus.record_sums import RecordSums
from attncli.corpus.resuming import SoFar
from attncli.models.engine import Engine
from attncli.models.linear import lay_out
from attncli.models.model import OFTEN, Model
from attncli.record import ModelInfo, Request
from attncli.text.windows import Window

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights that are there at once: on a CPU, what fits its cache


class Reducer:
    """How a corpus is reduced: what is counted of it, and how much of it at once.

    batch_tokens: tokens that go through the network together; block_weights: weights that are there at once (see
    `BatchSums`).

    tokenizer: cuts texts as long as are read at once.

    Raises RequestError for a checkpoint that can't be read, and for what the engine can't be asked for.
    """

    def __init__(
        self,
        model: Engine,
        counting: Counting = USUAL,
        batch_tokens: int | None = None,
        block_weights: int | None = None,
    ) -> None:
        self.model = model
        self.counting = counting
        self.which = model.to_itself(counting.which)
        model.check(Request(mask=counting.mask, measure=counting.measure, which=self.which))
        self.sums: BatchSums | RecordSums
        if isinstance(model, Model):
            at_once = block_weights or BLOCK_WEIGHTS.get(model.device.type, BLOCK_WEIGHTS["cpu"])
            self.sums = BatchSums(model, counting, at_once)
            model.need(model.config.layers)
        else:
            self.sums = RecordSums(model, counting, self.which)
        self.tokenizer = self.sums.tokenizer
        self.batch_tokens = batch_tokens or self.sums.batch_tokens

    @property
    def info(self) -> ModelInfo:
        """The model, with the layers and heads that are counted."""
        return self.model.info_of(self.which)

    @property
    def kind(self) -> str:
        """Which attention is counted, as in a record."""
        return self.model.kind(self.which)

    def nothing(self) -> SoFar:
        """What to begin with."""
        return SoFar(Sums.nothing(self.info.layers, self.info.heads, self.counting.distances))

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """What came out, from the sums of at least one text."""
        return Statistics.of(sums, self.info, self.counting, partial, self.kind)

    def reduce(self, texts: Iterable[Iterable[Window]]) -> Sums:
        """The sums over all texts. Raises RequestError as `count` does."""
        so_far = self.nothing()
        for one in self.count(texts, so_far):
            so_far = one
        return so_far.sums

    def count(self, texts: Iterable[Iterable[Window]], so_far: SoFar) -> Iterator[SoFar]:
        """Go on from what there is `so_far`, with the texts from `done` on, in the order of their numbers. Yields what
        there is after every batch.

        The batches are those of a run that was never interrupted, whose sums these are to the last bit: what is left
        of a group is not made into other ones.

        Raises RequestError where weights are no numbers.
        """
        with self.workers() as parts_of:
            begun: dict[int, Part] = {}
            for count, group in groups(texts, so_far.read - so_far.done):
                so_far = so_far.reading(count)
                of = {window.text: window.of for window in group if window.of is not None}
                cut = batches(group, self.batch_tokens)
                self.prepare(len(cut))
                left = [batch for batch in cut if any(so_far.wants(window.text) for window in batch)]
                for batch, parts in zip(left, parts_of(left, len(cut)), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        if not so_far.wants(window.text):
                            continue
                        whole = begun.pop(window.text).join(part) if window.text in begun else part
                        if whole.windows == of.get(window.text):
                            so_far = so_far.plus(window.text, whole.of_text())
                        else:
                            begun[window.text] = whole
                    yield so_far
                so_far = so_far.with_all_read()
                group.clear()  # before the next ones are read
                cut.clear()
                left.clear()
                yield so_far

    def prepare(self, batches: int) -> None:
        """For so many batches: weights are laid out where there are enough for that, as it takes their memory again."""
        if isinstance(self.model, Model) and batches >= OFTEN:
            lay_out(self.model.network)

    @contextmanager
    def workers(self) -> Iterator[Callable[[Sequence[Sequence[Window]], int], Iterable[list[Part]]]]:
        """What gives the `parts` of batches, in their order; how many there are with those that were counted before.

        On a CPU every core takes a batch of its own: a batch has many small products, and cores that share one of
        them wait for each other most of the time. Too few batches for that are shared all the same.
        """
        cores = self.sums.cores
        if cores == 1:
            yield lambda left, count: map(self.sums.parts, left)
            return
        pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield lambda left, count: (pool.map if count >= cores else map)(self.sums.parts, left)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)
