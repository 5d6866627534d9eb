"""A corpus through the network, reduced to sums on the way: no map outlives its layer, and a long one is never whole.

The arithmetic is that of `Model.attend`; how texts become batches is in `attncli.models.packed`.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import FIGURES, LINEAR, Counted, Doubles, Statistics, Sums, cells
from attncli.attention import MultiHeadAttention, attend_into
from attncli.corpus import Window, windows
from attncli.errors import RequestError
from attncli.models.linear import Linear
from attncli.models.model import Model, check_mask_name, check_measure
from attncli.models.norms import transformed_lengths
from attncli.models.packed import Run, batches, groups, runs
from attncli.models.units import Units

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights that are there at once: on a CPU, what fits its cache
ROWS = 64  # a batch has a multiple of so many, some idle: oneDNN keeps a program for every number that it has met
LEAST = 1e-37  # stands for a weight of 0, which has no logarithm


def corpus_statistics(
    model: Model,
    texts: Iterable[str],
    mask: str = "padding",
    distances: bool = False,
    measure: str = "weight",
    words: bool = False,
    stride: int | None = None,
) -> Statistics:
    """What every head of a model does in general, over texts of any number and length; `attncli stats` in Python.

    The figures are in `attncli.analysis.statistics`. distances: between all heads too; measure: "weight" or "norm";
    words: between words instead of tokens; stride: of texts longer than the model, tokens from one window to the next.

    Raises RequestError when there is no text, for one in which there is nothing, and as `Reducer` does.
    """

    def cut() -> Iterator[list[Window]]:
        for number, text in enumerate(texts):
            try:
                yield windows(number, text, model.tokenizer, stride)
            except ValueError as error:
                raise RequestError(f"text {number}: {error}") from error

    reducer = Reducer(model, mask, distances, measure, words)
    sums = reducer.reduce(cut())
    if not sums.texts:
        raise RequestError("there is no text in the corpus")
    return reducer.statistics(sums)


class Part(NamedTuple):
    """The sums over the queries of a window, or of several windows of a text; see `Sums`."""

    windows: int
    queries: int
    limit: float
    totals: Doubles
    divergence: Doubles | None

    def join(self, other: "Part") -> "Part":
        return Part(
            self.windows + other.windows,
            self.queries + other.queries,
            self.limit + other.limit,
            self.totals + other.totals,
            None if self.divergence is None or other.divergence is None else self.divergence + other.divergence,
        )


class Block(NamedTuple):
    """Some queries of a run, and what their weights count for.

    mask: `[query, key]`; None where nothing is hidden. meant: `cells`, `[window, figure, query, key]`. counts: whether
    a query counts, bool `[window, 1, query]`.
    """

    start: int
    stop: int
    mask: Tensor | None
    meant: Tensor
    counts: Tensor


class Reducer:
    """How a corpus is reduced: under which mask, which measure, between tokens or words, with or without distances
    between heads, how much of it at once.

    measure: "weight", or "norm": then a row of norms (`attncli.models.norms`) is divided by its sum. batch_tokens:
    tokens that go through the network together; block_weights: weights that are there at once, save that a single
    query, or the pieces of one word, are never divided.

    Raises RequestError for a mask or a measure that there is not, or a checkpoint that can't be read.
    """

    def __init__(
        self,
        model: Model,
        mask: str = "padding",
        distances: bool = False,
        measure: str = "weight",
        words: bool = False,
        batch_tokens: int | None = None,
        block_weights: int | None = None,
    ) -> None:
        check_mask_name(mask)
        check_measure(measure)
        self.model = model
        self.mask_name = mask
        self.causal = mask == "causal"  # without [PAD] the other masks hide nothing
        self.distances = distances
        self.norm = measure == "norm"
        self.words = words
        self.batch_tokens = batch_tokens or model.batch_tokens
        self.block_weights = block_weights or BLOCK_WEIGHTS.get(model.device.type, BLOCK_WEIGHTS["cpu"])
        self.memory = threading.local()  # see `room`
        model.need(model.config.layers)
        for module in model.encoder.modules():
            if isinstance(module, Linear) and module.packed is None:
                module.pack(self.batch_tokens)

    def nothing(self) -> Counted:
        """What to begin with."""
        return Counted(Sums.nothing(self.model.config.layers, self.model.config.heads, self.distances))

    def statistics(self, sums: Sums, partial: bool = False) -> Statistics:
        """What came out, from the sums of at least one text. Raises RequestError as `Statistics.of` does."""
        measure = "share of norm" if self.norm else "weight"
        return Statistics.of(sums, self.model.info, self.mask_name, partial, measure, self.words)

    def reduce(self, texts: Iterable[list[Window]]) -> Sums:
        """The sums over all texts. Raises RequestError as `count` does."""
        done = self.nothing()
        for counted in self.count(texts, done):
            done = counted
        return done.sums

    def count(self, texts: Iterable[list[Window]], counted: Counted) -> Iterator[Counted]:
        """Go on from what is `counted`, with the texts that it wants, in the order of their numbers. Yields how far it
        is after every batch.

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
                            counted = counted.plus(window.text, Sums.of_text(*whole[1:]))
                    yield counted
                counted = counted.up_to(group[-1].text + 1)
                group.clear()  # before the next ones are read
                cut.clear()
                yield counted

    @contextmanager
    def workers(self) -> Iterator[Callable[[Sequence[Sequence[Window]]], Iterable[list[Part]]]]:
        """What gives the `parts` of batches, in their order.

        On a CPU every core takes a batch of its own: a batch has many small products, and cores that share one of
        them wait for each other most of the time. Too few batches for that are shared all the same.
        """
        cores = torch.get_num_threads() if self.model.device.type == "cpu" else 1
        if cores == 1:
            yield lambda cut: map(self.parts, cut)
            return
        pool = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield lambda cut: pool.map(self.parts, cut) if len(cut) >= cores else map(self.parts, cut)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries, from one forward pass."""
        encoder, heads = self.model.encoder, self.model.config.heads
        totals = np.zeros((len(batch), len(encoder.layers), heads, len(FIGURES)))
        kept = []  # what each layer's maps are made of, where they are needed again
        with torch.inference_mode():
            divided = []
            for run in runs(batch, heads, self.block_weights):
                units = Units(run, self.words, self.model.device)
                divided.append((units, list(self.blocks(units)) if run.whole else None))
            x = torch.cat([self.embedded(units.run) for units, _ in divided])  # [row, hidden_size]
            x = F.pad(x, (0, 0, 0, -len(x) % ROWS))
            for number in range(len(encoder.layers)):
                layer = encoder.layer(number)
                last = number == len(encoder.layers) - 1
                query, key, value = projected(layer.attention, x, values=self.norm or not last)
                lengths = transformed_lengths(layer.attention, value, range(heads)) if self.norm else None
                attended = torch.zeros(len(x), heads * value.shape[-1], dtype=x.dtype, device=x.device)
                for units, blocks in divided:
                    output, sums = self.attend(units, blocks or self.blocks(units), query, key, value, lengths)
                    attended[units.run.rows], totals[units.run.places, number] = output, sums.numpy()
                if not last:
                    x = layer.rest(x, layer.attention.output(attended))
                if self.distances:
                    kept.append((query, key, lengths))
            divergences = [one for units, _ in divided for one in self.divergences(units, kept)]
        self.check_finite(totals)
        windows = [window for units, _ in divided for window in units.windows]
        return [
            Part(1, window.queries, self.limit(window), its_totals, divergence)
            for window, its_totals, divergence in zip(windows, totals, divergences, strict=True)
        ]

    def embedded(self, run: Run) -> Tensor:
        """What goes into the first layer: `[row, hidden_size]`."""
        inputs = self.model.inputs([window.tokens for window in run.windows])
        return self.model.encoder.embeddings(*inputs).flatten(0, 1)

    def attend(
        self,
        units: Units,
        blocks: Iterable[Block],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lengths: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The attention of a run in one layer, a block of queries after the other.

        query, key, value of the whole batch: `[head, row, head_dim]`; lengths, of the transformed values, where norms
        are asked for: `[head, row]`.

        Returns its rows of the output `[row, hidden_size]`, and float64 sums `[window, head, figure]`.
        """
        run = units.run
        query, key, value = run.texts(query), run.texts(key), run.texts(value)  # [window, head, token, head_dim]
        output = torch.empty_like(value)
        sums = torch.zeros(*query.shape[:2], len(FIGURES), dtype=torch.float64)  # on the CPU: mps has no such numbers
        for block in blocks:
            weights, logarithms = self.room(*query.shape[:2], block.stop - block.start, run.length)
            rows = slice(block.start, block.stop)
            output[:, :, rows] = attend_into(weights, query[:, :, rows], key, value, block.mask)
            if lengths is not None:
                weights.mul_(run.texts(lengths[..., None]).transpose(-2, -1))
            if units.word_of is not None:
                weights = units.merged(weights, rows)
                logarithms = torch.empty_like(weights)
            if lengths is not None:
                divide_rows(weights)
            sums += reduced(weights, logarithms, block.meant, block.counts).cpu()
        return output.transpose(1, 2).flatten(2).flatten(0, 1), sums

    def divergences(
        self, units: Units, kept: Sequence[tuple[Tensor, Tensor, Tensor | None]]
    ) -> Iterator[Doubles | None]:
        """For each window of a run, the sum over its queries of the divergence between each two heads of all layers.

        The maps are computed again from the layers' queries and keys, `[head, row, head_dim]`: at no time is there
        more of them than a block.
        """
        run = units.run
        if not kept:
            yield from [None] * len(run.windows)
            return
        queries, keys = [query for query, _, _ in kept], [key for _, key, _ in kept]
        lengths = [of_layer for _, _, of_layer in kept if of_layer is not None]
        every = len(kept) * len(queries[0])
        size = max(1, self.block_weights // (every * run.length))
        for number, window in enumerate(run.windows):
            place = slice(run.rows.start + number * run.length, run.rows.start + (number + 1) * run.length)
            alone = Units(Run([window], slice(0, 1), place, size), self.words, self.model.device)
            query, key = (torch.cat([one[:, place] for one in of_layers])[None] for of_layers in (queries, keys))
            total = np.zeros((every, every))
            for block in alone.blocks(size):
                weights, _ = self.room(1, every, block.stop - block.start, run.length)
                attend_into(weights, query[:, :, block], key, key[..., :0], self.mask(block, run.length))
                if lengths:
                    weights.mul_(torch.cat(lengths)[None, :, None, place])
                weights = alone.merged(weights, block)
                if lengths:
                    divide_rows(weights)
                counts = self.counts(alone, block)[0, 0].cpu().numpy()
                total += divergence_sums(weights[0].float().cpu().numpy()[:, counts])
            yield total

    def blocks(self, units: Units) -> Iterator[Block]:
        """The blocks of a run's queries."""
        for block in units.blocks(units.run.block):
            allowed = self.mask(block, units.run.length)
            yield Block(block.start, block.stop, allowed, self.cells(units, block), self.counts(units, block))

    def room(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Two tensors of this shape, in memory that every block uses again: new blocks would leave gaps in it.

        Each thread has its own.
        """
        count, memory = math.prod(shape), getattr(self.memory, "two", None)
        if memory is None or count > memory.shape[1]:
            size = 2, max(count, self.block_weights)
            memory = self.memory.two = torch.empty(size, dtype=self.model.dtype, device=self.model.device)
        return memory[0, :count].view(shape), memory[1, :count].view(shape)

    def mask(self, block: slice, length: int) -> Tensor | None:
        """`[query, key]` of some queries; None where nothing is hidden."""
        if not self.causal:
            return None
        return torch.ones(block.stop - block.start, length, dtype=torch.bool, device=self.model.device).tril(
            block.start
        )

    def cells(self, units: Units, block: slice) -> Tensor:
        """`cells` of what is counted in a block of queries: `[window, figure, query, key]`."""
        rows = units.rows(block)
        made = np.zeros((len(units.windows), len(LINEAR), rows.stop - rows.start, units.longest), dtype=np.float32)
        for place, window in enumerate(units.windows):
            stop = min(rows.stop, len(window))
            made[place, :, : stop - rows.start, : len(window)] = cells(window, rows.start, stop)
        return torch.from_numpy(made).to(self.model.device)

    def counts(self, units: Units, block: slice) -> Tensor:
        """Whether each query of a block counts: bool `[window, 1, query]`."""
        rows = units.rows(block)
        places = np.arange(rows.start, rows.stop)
        made = [(window.counted[0] <= places) & (places < window.counted[1]) for window in units.windows]
        return torch.from_numpy(np.stack(made)[:, None]).to(self.model.device)

    def limit(self, window: Window) -> float:
        """The sum over a window's queries of ln(how many keys each may attend to)."""
        if not self.causal:
            return window.queries * math.log(len(window))
        return sum(math.log(query + 1) for query in range(*window.counted))

    def check_finite(self, totals: Doubles) -> None:
        """Raises RequestError when a head's sums `[window, layer, head, figure]` are no numbers."""
        bad = np.argwhere(~np.isfinite(totals))
        if len(bad):
            raise self.model.too_large("scores", int(bad[0][1]), int(bad[0][2]))


def divide_rows(norms: Tensor) -> None:
    """Each row `[..., key]` by its sum, in place; a row of zeros stays one."""
    norms.div_(norms.sum(dim=-1, keepdim=True).clamp_min_(torch.finfo(norms.dtype).tiny))


def reduced(weights: Tensor, logarithms: Tensor, meant: Tensor, counts: Tensor) -> Tensor:
    """The figures' sums over a block of queries: `[window, head, figure]`, in the order of FIGURES.

    weights `[window, head, query, key]`, and room for their logarithms; meant, as `cells` has it, `[window, figure,
    query, key]`; counts `[window, 1, query]`.
    """
    if weights.dtype.itemsize < 4:  # half a precision is not enough to add up in
        weights, logarithms = weights.float(), logarithms.float()
    torch.clamp_min(weights, LEAST, out=logarithms)
    entropy = -logarithms.log_().mul_(weights).sum(-1)  # [window, head, query]
    strongest = weights.amax(-1)
    rest = sums_over_cells(weights.flatten(2), meant.flatten(2).transpose(1, 2).to(weights.dtype))
    return torch.cat([(entropy * counts).sum(-1, True), (strongest * counts).sum(-1, True), rest], dim=-1)


def sums_over_cells(weights: Tensor, meant: Tensor) -> Tensor:
    """`[window, head, cell]` x `[window, cell, figure]` -> `[window, head, figure]`.

    Cores share a batch of products, not a single one with long rows: heads of a single window are two batches.
    """
    windows, heads, cells = weights.shape
    if windows > 1 or heads % 2:
        return weights @ meant
    return (weights.view(2, heads // 2, cells) @ meant).view(1, heads, -1)


def projected(attention: MultiHeadAttention, x: Tensor, values: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of all rows, `[head, row, head_dim]`; values that nobody needs have a width of 0."""
    if values:
        query, key, value = attention.project(x[None])
    else:
        query, key = (attention.split_heads(linear(x[None])) for linear in (attention.query, attention.key))
        value = key[..., :0]
    return query[0], key[0], value[0]
