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
from attncli.models.linear import Linear
from attncli.models.model import Model
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
            pack(model, batch_tokens or self.sums.batch_tokens)
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
        """Go on from what there is `so_far`, with the texts that it wants, in the order of their numbers. Yields what
        there is after every batch.

        Raises RequestError where weights are no numbers.
        """
        with self.workers() as parts_of:
            begun: dict[int, Part] = {}
            for group in groups(texts):
                of = {window.text: window.of for window in group if window.of is not None}
                cut = batches(group, self.batch_tokens)
                for batch, parts in zip(cut, parts_of(cut), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        whole = begun.pop(window.text).join(part) if window.text in begun else part
                        if whole.windows == of.get(window.text):
                            so_far = so_far.plus(window.text, whole.of_text())
                        else:
                            begun[window.text] = whole
                    yield so_far
                so_far = so_far.up_to(group[-1].text + (group[-1].of is not None))
                group.clear()  # before the next ones are read
                cut.clear()
                yield so_far

    @contextmanager
    def workers(self) -> Iterator[Callable[[Sequence[Sequence[Window]]], Iterable[list[Part]]]]:
        """What gives the `parts` of batches, in their order.

        On a CPU every core takes a batch of its own: a batch has many small products, and cores that share one of
        them wait for each other most of the time. Too few batches for that are shared all the same.
        """
        cores = self.sums.cores
        if cores == 1:
            yield lambda cut: map(self.sums.parts, cut)
            return
        pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield lambda cut: pool.map(self.sums.parts, cut) if len(cut) >= cores else map(self.sums.parts, cut)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)


def pack(model: Model, batch_tokens: int) -> None:
    """Read all of a network, and lay out its matrices for batches of so many tokens."""
    model.need(model.config.layers)
    for module in model.network.modules():
        if isinstance(module, Linear) and module.packed is None:
            module.pack(batch_tokens)
