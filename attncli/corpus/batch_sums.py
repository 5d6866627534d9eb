"""A batch through the network, reduced to sums on the way: no map outlives its layer, and a long one is never whole.

The walk is that of `Model.take`; how texts become batches is in `attncli.corpus.packed`.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import FIGURES, LINEAR, Counting
from attncli.analysis.window_sums import Part
from attncli.attention import Window as Reach
from attncli.base.arrays import Doubles
from attncli.corpus.sums import Counted, divide_rows, reduced
from attncli.corpus.units import Units
from attncli.models.block import Block, Tap
from attncli.models.meeting import weigh
from attncli.models.rows import Rows
from attncli.models.tapped import TappedModel
from attncli.models.taps import transformed_lengths
from attncli.models.walk import Ending
from attncli.text.tokenizer import Tokenizer
from attncli.text.windows import Window

QUERIES = 32  # at once, at the least, of one long window: products of fewer rows with all keys take twice the time
TOKENS_A_CORE = 1024  # of a batch on a CPU, where every core has one of its own: more takes memory and gains 2%


class Memory(threading.local):
    """Some tensors of any shape, in memory that every part uses again: new memory would leave gaps.

    Each thread has its own.
    """

    def __init__(self, size: int, like: Tensor, tensors: int) -> None:
        self.all = like.new_empty(tensors, size)

    def room(self, *shape: int) -> list[Tensor]:
        count = math.prod(shape)
        if count > self.all.shape[1]:
            self.all = self.all.new_empty(len(self.all), count)
        return [one[:count].view(shape) for one in self.all]


class BatchSums:
    """What adds up the weights of batches; several threads may, each a batch of its own.

    block_weights: weights that are there at once, save that a single query, or the pieces of one word, are never
    divided. taps: read or change the blocks before they are counted.
    """

    def __init__(self, model: TappedModel, counting: Counting, block_weights: int, taps: Sequence[Tap] = ()) -> None:
        self.model = model
        self.counting = counting
        self.block_weights = block_weights
        self.taps = taps
        like = torch.empty(0, dtype=model.map_dtype, device=model.device)
        self.memory = Memory(block_weights, like, 3 if counting.measure == "norm" else 2)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries, from one walk."""
        model = self.model
        texts = [window.tokens for window in batch]
        with torch.inference_mode():
            rows = model.rows(texts, self.counting.mask, together=self.together)
            sums = BlockSums(self, batch, rows)
            taps = [*self.taps, sums]
            values = any(tap.needs_values for tap in taps)
            ending = Ending(model.select_layers("all")[-1], range(model.heads), values)
            for _ in model.walk(rows, taps, ending):
                pass
            self.check_finite(sums.totals)
            divergences = sums.divergences() if self.counting.distances else [None] * len(batch)
        limits, alike = sums.alike()
        return [
            Part(1, window.queries, limits[number], sums.totals[number], divergences[number], alike[number])
            for number, window in enumerate(sums.windows)
        ]

    def together(self, length: int) -> int:
        """Texts of one length whose weights are there at once."""
        return self.block_weights // (self.model.heads * length**2)

    def check_finite(self, totals: Doubles) -> None:
        """Raises RequestError when a head's sums `[window, layer, head, figure]` are no numbers."""
        bad = np.argwhere(~np.isfinite(totals))
        if len(bad):
            raise self.model.too_large("scores", int(bad[0][1]), int(bad[0][2]))


class Met(NamedTuple):
    """The heads of a layer on a run of texts, and the lengths of their transformed values if norms are asked for."""

    block: Block
    lengths: Tensor | None

    def text(self, place: int) -> "Met":
        """The same for one of the texts."""
        one = slice(place, place + 1)
        return Met(self.block.some_texts(one), None if self.lengths is None else self.lengths[one])


class BlockSums(Tap):
    """Adds up the figures of a batch's weights, a part of a block after the other.

    windows: as their queries are counted, of tokens or of words; totals: `[window, layer, head, figure]`.
    """

    def __init__(self, sums: BatchSums, batch: Sequence[Window], rows: Rows) -> None:
        model, counting = sums.model, sums.counting
        self.memory = sums.memory
        self.device = model.device
        self.block_weights = sums.block_weights
        self.words, self.norm, self.distances = counting.words, counting.measure == "norm", counting.distances
        self.needs_values = self.norm
        self.batch = batch
        self.rows = rows
        self.windows = [window.in_words if self.words else window for window in batch]
        self.totals = np.zeros((len(batch), model.layers, model.heads, len(FIGURES)))
        self.units: list[Units] = []
        self.blocks: list[list[Counted] | None] = []  # those of a run whose weights exist together, made once
        self.met: list[list[Met]] = [[] for _ in rows.runs]  # of each, where its maps are needed again
        self.lengths: Tensor | None = None  # of the block that is being computed
        self.part: tuple[Counted, list[Tensor]] | None = None  # the part that is being computed, and memory for it
        for run in rows.runs:
            fewest = min(QUERIES, self.block_weights // run.length)
            block = max(fewest, self.block_weights // (model.heads * run.length))
            units = Units([batch[text] for text in run.texts], self.words, block, model.device)
            self.units.append(units)
            self.blocks.append(list(units.counted()) if units.whole else None)

    def begin(self, block: Block) -> Block:
        self.lengths = transformed_lengths(block) if self.norm else None
        if self.distances:
            self.met[block.run.number].append(Met(block.bare, self.lengths))
        return block

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def parts(self, block: Block) -> Iterator[Block]:
        """Divide a block into queries that are counted together, and into heads as memory asks for it."""
        for counted in self.blocks_of(block.run.number, block.window):
            within = block.some_queries(counted.queries).some_keys(counted.keys)
            for places in self.together(within):
                part = within.some_heads(places)
                self.part = counted, self.memory.room(*part.query.shape[:3], part.key.shape[2])
                yield part

    def room(self, part: Block) -> Tensor:
        """The memory that every part uses again."""
        assert self.part is not None
        return self.part[1][0]

    def weights(self, part: Block, weights: Tensor) -> None:
        assert self.part is not None
        counted, (_, logarithms, *spare) = self.part
        lengths = None if self.lengths is None else self.lengths[:, list(part.numbers), part.keys]
        rows = self.counted(self.units[part.run.number], weights, part.queries, lengths, spare)
        if rows.shape != logarithms.shape:
            logarithms = torch.empty_like(rows)
        sums = reduced(rows, logarithms, counted.factors, counted.counts).cpu().numpy()
        self.totals[np.ix_(part.text_numbers, [part.layer], part.numbers)] += sums[:, None]

    def blocks_of(self, run: int, reach: Reach | None) -> Iterable[Counted]:
        """The queries of a run, some after the other; in a layer that sees no further than `reach`, of one long window,
        with the keys that they can see.
        """
        units, made = self.units[run], self.blocks[run]
        if made is not None:
            return made
        if reach is None or self.words or len(units.windows) > 1:
            return units.counted()
        return units.near(reach)

    def together(self, block: Block) -> Iterator[slice]:
        """As many of these heads after the other as have no more weights than may be there at once."""
        count = len(block.numbers)
        some = max(1, self.block_weights // (len(block.query) * block.query.shape[2] * block.key.shape[2]))
        yield from (slice(start, min(start + some, count)) for start in range(0, count, some))

    def counted(
        self, units: Units, weights: Tensor, queries: slice, lengths: Tensor | None, spare: Sequence[Tensor]
    ) -> Tensor:
        """A part's weights as they are counted: between words, as shares of norms. spare: memory for norms."""
        if lengths is not None:
            weights = torch.mul(weights, lengths[..., None, :], out=spare[0])
        weights = units.merged(weights, queries)
        if lengths is not None:
            divide_rows(weights)
        return weights

    def alike(self) -> tuple[Doubles, Doubles]:
        """Of a head that looks at everything alike: its entropy `[window, layer]`, and `[window, layer, figure]`; see
        `Units.alike`.
        """
        limits, linear = np.zeros(self.totals.shape[:2]), np.zeros((*self.totals.shape[:2], len(LINEAR)))
        for run, units in zip(self.rows.runs, self.units, strict=True):
            shared: dict[int, tuple[Doubles, Doubles]] = {}
            for layer, mask in enumerate(run.masks):
                if id(mask) not in shared:
                    reach = None if mask is None else mask.window
                    shared[id(mask)] = units.alike(mask, self.blocks_of(run.number, reach))
                limits[run.texts, layer], linear[run.texts, layer] = shared[id(mask)]
        return limits, linear

    def divergences(self) -> list[Doubles]:
        """Of each window the sum over its queries of the divergence between each two heads of all layers.

        The maps are made again from the queries and keys that met in each layer: at no time is there more of them than
        a block.
        """
        return self.rows.in_order(
            [self.divergence([one.text(place) for one in met], text) for place, text in enumerate(run.texts)]
            for run, met in zip(self.rows.runs, self.met, strict=True)
        )

    def divergence(self, met: Sequence[Met], text: int) -> Doubles:
        """Of one window, by the heads of all layers on it: `[head of all layers, head of all layers]`."""
        length, (layers, heads) = len(self.batch[text]), self.totals.shape[1:3]
        every = layers * heads
        units = Units([self.batch[text]], self.words, self.block_weights // (every * length), self.device)
        total = np.zeros((every, every))
        for block in units.blocks():
            made: dict[tuple[int, int], Tensor] = {}
            for some, lengths in met:
                room, _, *spare = self.memory.room(1, len(some.numbers), block.stop - block.start, length)
                weigh(some.some_queries(block), room)
                counted = self.counted(units, room, block, lengths, spare)[0].float().cpu().clone()
                made.update(zip(product([some.layer], some.numbers), counted, strict=True))
            maps = torch.stack([made[head] for head in product(range(layers), range(heads))])
            total += divergence_sums(maps.numpy()[:, units.counts(block)[0, 0].cpu().numpy()])
        return total
