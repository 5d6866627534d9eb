"""A corpus through the network, batch by batch; what is left of it are sums, which are added up text by text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from attncli.analysis.statistics import USUAL, Counting, Statistics, Sums
from attncli.analysis.window_sums import Part
from attncli.corpus.batch_sums import TOKENS_A_CORE, BatchSums
from attncli.corpus.cores import MOST_THREADS, pool
from attncli.corpus.packed import batches, groups
from attncli.corpus.record_sums import LONGEST_WINDOW, RecordSums
from attncli.models.engine import Engine
from attncli.models.model import OFTEN, Model
from attncli.models.network import lay_out
from attncli.models.tapped import check_every_layer, tapped
from attncli.models.walk import BATCH_TOKENS
from attncli.record import ModelInfo, Request
from attncli.text.windows import Window

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights that are there at once: on a CPU, what fits its cache

Parts = Callable[[Sequence[Sequence[Window]]], Iterable[list[Part]]]


@dataclass(frozen=True)
class Pace:
    """How much goes through the network together: what the last bit of the sums depends on, beside the texts.

    batch_tokens: tokens that go through it together; block_weights: weights that are there at once (see `BatchSums`).
    threads: cores that share a batch, where there are fewer batches than that. laid_out: whether weights are laid out,
    which takes their memory again; None where they are as soon as there are enough batches for that.
    """

    batch_tokens: int
    block_weights: int
    threads: int
    laid_out: bool | None = None

    @classmethod
    def on(cls, device: str, **changes: Any) -> "Pace":
        """On a device of this type, as this machine has them."""
        tokens = TOKENS_A_CORE if device == "cpu" else BATCH_TOKENS[device]
        weights = BLOCK_WEIGHTS.get(device, BLOCK_WEIGHTS["cpu"])
        return replace(cls(tokens, weights, min(MOST_THREADS, torch.get_num_threads())), **changes)

    @property
    def numbers(self) -> dict[str, int]:
        """As whole numbers, by their names."""
        return {name: int(value) for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, int]) -> "Pace":
        """From what `numbers` gave. Raises KeyError for what is missing."""
        found = {name: numbers[name] for name in ("batch_tokens", "block_weights", "threads")}
        return cls(**found, laid_out=bool(numbers["laid_out"]) if "laid_out" in numbers else None)


class Reducer:
    """How a corpus is reduced: what is counted of it, how much of it at once, and on how many cores.

    tokenizer: cuts texts as long as are read at once.

    Raises RequestError for a checkpoint that can't be read, and for what the engine can't be asked for.
    """

    def __init__(
        self, model: Engine, counting: Counting = USUAL, pace: Pace | None = None, cores: int | None = None
    ) -> None:
        self.model = model
        self.which = model.to_itself(counting.which)
        self.counting = counting = replace(counting, mask=model.mask_of(counting.mask, self.which))
        model.check(Request(mask=counting.mask, measure=counting.measure, which=self.which))
        check_every_layer(model, self.which, "stats")
        self.sums: BatchSums | RecordSums
        part = tapped(model, self.which)
        device = "cpu" if part is None else part.device.type
        self.pace = pace or Pace.on(device)
        self.cores = 1
        if part is not None and not model.writes(Request(which=self.which)):
            self.sums = BatchSums(part, counting, self.pace.block_weights)
            self.batch_tokens = self.pace.batch_tokens
            if device == "cpu" and isinstance(model, Model):
                self.cores = cores or torch.get_num_threads()
        else:
            self.sums = RecordSums(model, counting, self.which)
            self.batch_tokens = LONGEST_WINDOW
        self.tokenizer = self.sums.tokenizer

    @property
    def info(self) -> ModelInfo:
        """The model, with the layers and heads that are counted."""
        return self.model.info_of(self.which)

    @property
    def kind(self) -> str:
        """Which attention is counted, as in a record."""
        return self.model.kind(self.which)

    def nothing(self) -> Sums:
        """What to begin with."""
        return Sums.nothing(self.info.layers, self.info.heads, self.counting.distances)

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """What came out, from the sums of at least one text."""
        return Statistics.of(sums, self.info, self.counting, partial, self.kind)

    def reduce(self, texts: Iterable[Iterable[Window]]) -> Sums:
        """The sums over all texts. Raises RequestError as `count` does."""
        sums = self.nothing()
        for so_far in self.count(texts):
            sums = so_far
        return sums

    def count(self, texts: Iterable[Iterable[Window]]) -> Iterator[Sums]:
        """The sums of the texts so far, after every batch.

        Raises RequestError where weights are no numbers.
        """
        sums = self.nothing()
        if isinstance(self.model, Model):
            self.model.need(self.model.layers)
        with self.workers() as parts_of:
            begun: dict[int, Part] = {}
            for group in groups(texts):
                of = {window.text: window.of for window in group if window.of is not None}
                cut = batches(group, self.batch_tokens)
                self.prepare(len(cut))
                for batch, parts in zip(cut, parts_of(cut), strict=True):
                    for window, part in zip(batch, parts, strict=True):
                        whole = begun.pop(window.text).join(part) if window.text in begun else part
                        if whole.windows == of.get(window.text):
                            sums = sums + whole.of_text()
                        else:
                            begun[window.text] = whole
                    yield sums
                group.clear()  # before the next ones are read
                cut.clear()

    def prepare(self, batches: int) -> None:
        """For so many batches."""
        wanted = batches >= OFTEN if self.pace.laid_out is None else self.pace.laid_out
        if wanted and isinstance(self.model, Model):
            lay_out(self.model.network)

    @contextmanager
    def workers(self) -> Iterator[Parts]:
        """What gives the `parts` of batches, in their order.

        On a CPU every core takes a batch of its own: a batch has many small products, and cores that share one of
        them wait for each other most of the time. Too few batches for that are shared all the same.
        """
        alone = not isinstance(self.model, Model) or self.model.device.type != "cpu"
        with pool(self.cores, self.pace.threads) as each:
            yield lambda cut: (map if alone or len(cut) < self.pace.threads else each.map)(self.sums.parts, cut)
