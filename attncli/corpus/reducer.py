"""A corpus through the network, batch by batch; what is left of it are sums, which are added up text by text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

from attncli.analysis.statistics import USUAL, Counting, Statistics, Sums
from attncli.corpus.batch_sums import BatchSums
from attncli.corpus.packed import batches, groups
from attncli.corpus.resuming import SoFar
from attncli.corpus.sums import Part
from attncli.models.linear import Linear
from attncli.models.model import Model
from attncli.text.windows import Window

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights that are there at once: on a CPU, what fits its cache


class Reducer:
    """How a corpus is reduced: what is counted of it, and how much of it at once.

    batch_tokens: tokens that go through the network together; block_weights: weights that are there at once (see
    `BatchSums`).

    Raises RequestError for a checkpoint that can't be read.
    """

    def __init__(
        self,
        model: Model,
        counting: Counting = USUAL,
        batch_tokens: int | None = None,
        block_weights: int | None = None,
    ) -> None:
        self.model = model
        self.counting = counting
        self.batch_tokens = batch_tokens or model.batch_tokens
        at_once = block_weights or BLOCK_WEIGHTS.get(model.device.type, BLOCK_WEIGHTS["cpu"])
        self.sums = BatchSums(model, counting, at_once)
        model.need(model.config.layers)
        for module in model.network.modules():
            if isinstance(module, Linear) and module.packed is None:
                module.pack(self.batch_tokens)

    def nothing(self) -> SoFar:
        """What to begin with."""
        return SoFar(Sums.nothing(self.model.config.layers, self.model.config.heads, self.counting.distances))

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """What came out, from the sums of at least one text."""
        return Statistics.of(sums, self.model.info, self.counting, partial)

    def reduce(self, texts: Iterable[list[Window]]) -> Sums:
        """The sums over all texts. Raises RequestError as `count` does."""
        so_far = self.nothing()
        for one in self.count(texts, so_far):
            so_far = one
        return so_far.sums

    def count(self, texts: Iterable[list[Window]], so_far: SoFar) -> Iterator[SoFar]:
        """Go on from what there is `so_far`, with the texts that it wants, in the order of their numbers. Yields what
        there is after every batch.

        Raises RequestError where weights are no numbers.
        """
        with self.workers() as parts_of:
            for group in groups(texts):
                begun: dict[int, Part] = {}
                cut = batches(group, self.batch_tokens)
                for batch, parts in zip(cut, parts_of(cut), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        whole = begun.pop(window.text).join(part) if window.text in begun else part
                        if whole.windows < window.of:
                            begun[window.text] = whole
                        else:
                            so_far = so_far.plus(window.text, whole.of_text())
                    yield so_far
                so_far = so_far.up_to(group[-1].text + 1)
                group.clear()  # before the next ones are read
                cut.clear()
                yield so_far

    @contextmanager
    def workers(self) -> Iterator[Callable[[Sequence[Sequence[Window]]], Iterable[list[Part]]]]:
        """What gives the `parts` of batches, in their order.

        On a CPU every core takes a batch of its own: a batch has many small products, and cores that share one of
        them wait for each other most of the time. Too few batches for that are shared all the same.
        """
        cores = torch.get_num_threads() if self.model.device.type == "cpu" else 1
        if cores == 1:
            yield lambda cut: map(self.sums.parts, cut)
            return
        pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield lambda cut: pool.map(self.sums.parts, cut) if len(cut) >= cores else map(self.sums.parts, cut)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)
