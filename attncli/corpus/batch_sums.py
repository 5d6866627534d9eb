"""Sum the weights of a batch during the forward pass.

The maps of a layer are dropped before the next one; long maps are computed in parts. `attncli.corpus.reducer` makes the
batches.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.attention import Window as Reach
from attncli.base.arrays import Doubles
from attncli.corpus.sums import FIGURES, LEAST, LINEAR, SAME, Counting, Sums, factors
from attncli.models.block import Block, Tap, bands
from attncli.models.engine import Engine
from attncli.models.rows import LayerMask, Rows
from attncli.models.taps import transformed_lengths
from attncli.models.walk import Ending, too_large
from attncli.text.windows import TextWindow

QUERIES = 32  # the minimum per part of a long window: products of fewer rows with all keys take twice the time


class Memory(threading.local):
    """Memory per thread for tensors of any shape. Every part reuses it, because new memory would become fragmented.

    size: weights in memory at a time. A single query, or the pieces of one word, are never split.
    """

    def __init__(self, size: int, like: Tensor, tensors: int) -> None:
        self.size = size
        self.all = like.new_empty(tensors, size)

    def room(self, *shape: int) -> list[Tensor]:
        count = math.prod(shape)
        if count > self.all.shape[1]:
            self.all = self.all.new_empty(len(self.all), count)
        return [one[:count].view(shape) for one in self.all]


def batch_sums(model: Engine, counting: Counting, memory: Memory, batch: Sequence[TextWindow]) -> list[Sums]:
    """Return the sums over the queries of each window, from one forward pass.

    Raises RequestError if the sums of a head are not finite.
    """
    with torch.inference_mode():
        rows = model.rows(
            [window.tokens for window in batch],
            counting.mask,
            together=lambda length: memory.size // (model.heads * length**2),
        )
        sums = BatchSums(model, counting, memory, batch, rows)
        ending = Ending(model.select_layers("all")[-1], range(model.heads), sums.needs_values)
        for _ in model.walk(rows, [sums], ending):
            pass
        if len(bad := np.argwhere(~np.isfinite(sums.totals))):
            raise too_large(model, "scores", int(bad[0][1]), int(bad[0][2]))
    queries = [(window.in_words if counting.words else window).queries for window in batch]
    return list(map(Sums.of_part, queries, sums.totals, *sums.uniform_sums()))


class BatchSums(Tap):
    """Sums the statistics of the weights of a batch, part by part.

    totals: `[window, layer, head, figure]`.
    """

    def __init__(
        self, model: Engine, counting: Counting, memory: Memory, batch: Sequence[TextWindow], rows: Rows
    ) -> None:
        self.memory, self.batch, self.rows, self.device = memory, batch, rows, model.device
        self.norm = self.needs_values = counting.measure == "norm"
        self.totals = np.zeros((len(batch), model.layers, model.heads, len(FIGURES)))
        self.units: list[Units] = []  # of each run
        for run in rows.runs:
            block = max(min(QUERIES, memory.size // run.length), memory.size // (model.heads * run.length))
            self.units.append(Units([batch[text] for text in run.texts], counting.words, block, self.device))
        self.lengths: Tensor | None = None  # of the current block
        self.part: tuple[_Queries, list[Tensor]] | None = None  # the current part, and memory for it

    def begin(self, block: Block) -> Block:
        self.lengths = transformed_lengths(block) if self.norm else None
        return block

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def parts(self, block: Block) -> Iterator[Block]:
        """Split a block into queries that are counted together, and into as many heads as fit into memory."""
        count = len(block.numbers)
        for counted in self.units[block.run.number].query_blocks(block.window):
            within = block.some_queries(counted.queries).some_keys(counted.keys)
            some = max(1, self.memory.size // (len(within.query) * within.query.shape[2] * within.key.shape[2]))
            for start in range(0, count, some):
                part = within.only(slice(start, min(start + some, count)))
                self.part = counted, self.memory.room(*part.query.shape[:3], part.key.shape[2])
                yield part

    def out(self, part: Block) -> Tensor:
        assert self.part is not None
        return self.part[1][0]

    def weights(self, part: Block, weights: Tensor) -> None:
        assert self.part is not None
        counted, (_, logarithms, *spare) = self.part
        if self.lengths is not None:
            lengths = self.lengths[:, list(part.numbers), part.keys]
            weights = torch.mul(weights, lengths[..., None, :], out=spare[0])
        rows = self.units[part.run.number].merge(weights, part.queries)
        if self.lengths is not None:  # norms count as shares; a row of zeros stays unchanged
            rows.div_(rows.sum(dim=-1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).tiny))
        if rows.shape != logarithms.shape:
            logarithms = torch.empty_like(rows)
        sums = sum_statistics(rows, logarithms, counted.factors, counted.counts).cpu().numpy()
        self.totals[np.ix_(part.text_numbers, [part.layer], part.numbers)] += sums[:, None]

    def uniform_sums(self) -> tuple[Doubles, Doubles, Doubles]:
        """Return the sums for uniform attention.

        These are its entropy, `[window, layer]`; its statistics in LINEAR, `[window, layer, figure]`; and the number of
        queries whose word occurs elsewhere, `[window, layer]`.
        """
        limits, repeats = np.zeros((2, *self.totals.shape[:2]))
        linear = np.zeros((*limits.shape, len(LINEAR)))
        for run, units in zip(self.rows.runs, self.units, strict=True):
            masks = {id(mask): mask for mask in run.masks}  # layers share masks
            uniform = {number: units.uniform_sums(mask) for number, mask in masks.items()}
            for layer, mask in enumerate(run.masks):
                limits[run.texts, layer], linear[run.texts, layer], repeats[run.texts, layer] = uniform[id(mask)]
        return limits, linear, repeats


# --- queries and keys: the tokens of windows, or their words ------------------------------------------


class _Queries(NamedTuple):
    """Some queries of a run, the keys that they may attend to, and the factors of their weights.

    factors: of the weights (`attncli.corpus.sums.factors`), `[window, figure, query, key]`. counts: whether a
    query counts, bool `[window, 1, query]`.
    """

    queries: slice
    keys: slice
    factors: Tensor
    counts: Tensor


class Units:
    """Windows of one length, whose queries are tokens or words (`windows`). Maps are padded to the `longest`.

    block: the number of queries in memory at a time; all, unless it is one long window.
    """

    def __init__(self, windows: Sequence[TextWindow], words: bool, block: int, device: torch.device) -> None:
        self.windows: Sequence[TextWindow] = [window.in_words for window in windows] if words else windows
        self.longest = max(map(len, self.windows))
        self.length = len(windows[0])
        self.block = max(1, block)
        self.is_one_block = self.block >= self.length
        self.device = device
        self.made: list[_Queries] | None = None  # if all weights of the run are in memory together
        self.word_of: Tensor | None = None  # [window, token]: the place of its word among the words
        if words:
            self.starts = windows[0].starts
            tokens = np.arange(self.length)
            places = [np.searchsorted(window.starts, tokens, side="right") - 1 for window in windows]
            self.word_of = torch.from_numpy(np.stack(places)).to(device)

    def blocks(self) -> Iterator[slice]:
        """Yield the queries in blocks that split no word. Several windows are one block."""
        ends = np.arange(self.length + 1) if self.word_of is None else np.append(self.starts, self.length)
        start = 0
        while start < self.length:
            fitting = ends[(ends > start) & (ends <= start + self.block)]
            end = self.length if self.is_one_block else int(fitting[-1] if len(fitting) else ends[ends > start][0])
            yield slice(start, end)
            start = end

    def query_blocks(self, reach: Reach | None) -> Iterable[_Queries]:
        """Return the blocks with the factors of their weights.

        reach: the attention window of the layer. In a single long text window, keys outside the reach of a whole block
        are omitted.
        """
        if self.made is not None:
            return self.made
        every = slice(0, self.length)
        blocks: Iterable[tuple[slice, slice]]
        if reach is None or self.word_of is not None or self.is_one_block:
            blocks = zip(self.blocks(), repeat(every))
        else:
            blocks = bands(reach, every, every)
        made = (_Queries(block, keys, self.factors(block, keys), self.counts(block)) for block, keys in blocks)
        if self.is_one_block:
            self.made = list(made)
        return self.made or made

    def rows(self, block: slice) -> slice:
        """Return the places of a block of queries among tokens or words."""
        if self.word_of is None:
            return block
        if self.is_one_block:
            return slice(0, self.longest)
        return slice(int(self.word_of[0, block.start]), int(self.word_of[0, block.stop - 1]) + 1)

    def factors(self, block: slice, keys: slice) -> Tensor:
        """Return the factors of a block's weights, `[window, figure, query, key]`."""
        rows, columns = self.rows(block), len(range(self.longest)[keys])
        made = np.zeros((len(self.windows), len(LINEAR), rows.stop - rows.start, columns), dtype=np.float32)
        for place, window in enumerate(self.windows):
            stop = min(rows.stop, len(window))
            made[place, :, : stop - rows.start, : len(window)] = factors(window, rows.start, stop, keys)
        return torch.from_numpy(made).to(self.device)

    def counts(self, block: slice) -> Tensor:
        """Return whether each query of a block counts, bool `[window, 1, query]`."""
        rows = self.rows(block)
        places = np.arange(rows.start, rows.stop)
        made = [(window.counted[0] <= places) & (places < window.counted[1]) for window in self.windows]
        return torch.from_numpy(np.stack(made)[:, None]).to(self.device)

    def merge(self, weights: Tensor, block: slice) -> Tensor:
        """Return weights between words, `[window, head, query, key]`, as `merge_words` does for records.

        Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1).
        """
        if self.word_of is None:
            return weights
        rows = self.rows(block)
        keys = self.word_of[:, None, None, :].expand_as(weights)
        to_words = weights.new_zeros(*weights.shape[:3], self.longest).scatter_add_(-1, keys, weights)
        from_word = self.word_of[:, block] - rows.start  # [window, query]
        queries = from_word[:, None, :, None].expand_as(to_words)
        size = weights.shape[0], weights.shape[1], rows.stop - rows.start, self.longest
        between = weights.new_zeros(size).scatter_add_(-2, queries, to_words)
        ones = torch.ones_like(from_word, dtype=weights.dtype)
        pieces = weights.new_zeros(len(weights), size[2]).scatter_add_(-1, from_word, ones)
        return between.div_(pieces.clamp_min_(1)[:, None, :, None])

    def uniform_sums(self, mask: LayerMask | None) -> tuple[Doubles, Doubles, Doubles]:
        """Return the sums for uniform attention over the queries.

        These are its entropy, ln(number of visible keys), `[window]`; its statistics in LINEAR, `[window, figure]`; and
        the number of queries whose word occurs elsewhere. mask: between tokens; None hides nothing. A word may attend
        to another if any of its pieces may.
        """
        entropy, repeats = torch.zeros(2, len(self.windows), dtype=torch.float64)
        linear = torch.zeros(len(self.windows), len(LINEAR), dtype=torch.float64)
        for block in self.query_blocks(None if mask is None else mask.window):
            visible = None if mask is None else mask.of(block.queries, block.keys, self.device)
            if visible is None:
                lengths = torch.tensor([len(window) for window in self.windows], device=self.device)
                seen = torch.arange(self.longest, device=self.device) < lengths[:, None]
                allowed = seen[:, None].float().expand(-1, block.counts.shape[2], -1)
            else:
                size = (
                    len(self.windows),
                    1,
                    block.queries.stop - block.queries.start,
                    block.keys.stop - block.keys.start,
                )
                allowed = (self.merge(visible.expand(size).float(), block.queries) > 0)[:, 0].float()
            keys = allowed.sum(dim=-1, keepdim=True).clamp(min=1)
            entropy += (keys[..., 0].cpu().double().log() * block.counts[:, 0].cpu()).sum(dim=-1)
            linear += _weighted_sums((allowed / keys).flatten(1)[:, None], block.factors.flatten(2).mT)[:, 0].cpu()
            repeats += (allowed * block.factors[:, SAME]).any(-1).sum(-1).cpu()
        return entropy.numpy(), linear.numpy(), repeats.numpy()


# --- sums of weights ----------------------------------------------------------------------------------


def sum_statistics(weights: Tensor, logarithms: Tensor, factors: Tensor, counts: Tensor) -> Tensor:
    """Return the sums of the statistics over a block of queries, `[window, head, figure]`, in the order of FIGURES.
    weights: `[window, head, query, key]`. logarithms: memory for their logarithms. factors, counts: as in `_Queries`.
    """
    if weights.dtype.itemsize < 4:  # half precision is too coarse for sums
        weights, logarithms = weights.float(), logarithms.float()
    torch.clamp_min(weights, LEAST, out=logarithms)
    entropy = -logarithms.log_().mul_(weights).sum(-1)  # [window, head, query]
    strongest = weights.amax(-1)
    rest = _weighted_sums(weights.flatten(2), factors.flatten(2).transpose(1, 2).to(weights.dtype))
    return torch.cat([(entropy * counts).sum(-1, True), (strongest * counts).sum(-1, True), rest], dim=-1)


def _weighted_sums(weights: Tensor, factors: Tensor) -> Tensor:
    """Multiply `[window, head, query x key]` by `[window, query x key, figure]`, to `[window, head, figure]`.

    Cores share a batch of products, but not a single product with long rows. So one window's heads become two batches.
    """
    windows, heads, length = weights.shape
    if windows > 1 or heads % 2:
        return weights @ factors
    return (weights.view(2, heads // 2, length) @ factors).view(1, heads, -1)
