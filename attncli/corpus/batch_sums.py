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
from attncli.corpus.sums import Block, divide_rows, reduced
from attncli.corpus.units import Units
from attncli.models.attending import attend_heads
from attncli.models.model import Model
from attncli.models.norms import transformed_lengths
from attncli.models.rows import Rows, as_rows
from attncli.models.walk import Attend, Ending, Heads, walk
from attncli.text.tokenizer import Tokenizer
from attncli.text.windows import Window

QUERIES = 32  # at once, at the least, of one long window: products of fewer rows with all keys take twice the time
TOKENS_A_CORE = 1024  # of a batch on a CPU, where every core has one of its own: more takes memory and gains 2%


class Memory(threading.local):
    """Two tensors of any shape, in memory that every block uses again: new blocks would leave gaps in it.

    Each thread has its own.
    """

    def __init__(self, size: int, like: Tensor) -> None:
        self.two = like.new_empty(2, size)

    def room(self, *shape: int) -> tuple[Tensor, Tensor]:
        count = math.prod(shape)
        if count > self.two.shape[1]:
            self.two = self.two.new_empty(2, count)
        return self.two[0, :count].view(shape), self.two[1, :count].view(shape)


class BatchSums:
    """What adds up the weights of batches; several threads may, each a batch of its own.

    block_weights: weights that are there at once, save that a single query, or the pieces of one word, are never
    divided. inside: what happens where queries meet keys, beside the adding up.
    """

    def __init__(self, model: Model, counting: Counting, block_weights: int, inside: Attend = attend_heads) -> None:
        self.model = model
        self.counting = counting
        self.block_weights = block_weights
        self.inside = inside
        self.memory = Memory(block_weights, torch.empty(0, dtype=model.map_dtype, device=model.device))

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries, from one walk."""
        config = self.model.config
        texts = [window.tokens for window in batch]
        with torch.inference_mode():
            rows = as_rows(texts, config, self.counting.mask, self.model.device, together=self.together)
            sums = BlockSums(self, batch, rows)
            ending = Ending(config.layers - 1, range(config.heads), values=sums.norm or self.inside is not attend_heads)
            for _ in walk(self.model.network, rows, sums, ending):
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
        return self.block_weights // (self.model.config.heads * length**2)

    def check_finite(self, totals: Doubles) -> None:
        """Raises RequestError when a head's sums `[window, layer, head, figure]` are no numbers."""
        bad = np.argwhere(~np.isfinite(totals))
        if len(bad):
            raise self.model.too_large("scores", int(bad[0][1]), int(bad[0][2]))


class Met(NamedTuple):
    """The heads of a layer on a run of texts, and the lengths of their transformed values where norms are asked for."""

    heads: Heads
    lengths: Tensor | None

    def text(self, place: int) -> "Met":
        """The same for one of the texts."""
        one = slice(place, place + 1)
        return Met(self.heads.some_texts(one), None if self.lengths is None else self.lengths[one])


class BlockSums:
    """Adds up the figures of a batch's weights, a block of queries after the other (an `attncli.models.walk.Attend`).

    Whoever it is inside of may give it some heads after the other, but a run's texts and queries all at once.

    windows: as their queries are counted, of tokens or of words; totals: `[window, layer, head, figure]`.
    """

    def __init__(self, sums: BatchSums, batch: Sequence[Window], rows: Rows) -> None:
        config, counting = sums.model.config, sums.counting
        self.inside = sums.inside
        self.memory = sums.memory
        self.block_weights = sums.block_weights
        self.words, self.norm, self.distances = counting.words, counting.measure == "norm", counting.distances
        self.batch = batch
        self.rows = rows
        self.windows = [window.in_words if self.words else window for window in batch]
        self.totals = np.zeros((len(batch), config.layers, config.heads, len(FIGURES)))
        self.units: list[Units] = []
        self.blocks: list[list[Block] | None] = []  # those of a run whose weights are there at once, made once
        self.met: list[list[Met]] = [[] for _ in rows.runs]  # of each, where its maps are needed again
        for run in rows.runs:
            fewest = min(QUERIES, self.block_weights // run.length)
            block = max(fewest, self.block_weights // (config.heads * run.length))
            units = Units([batch[text] for text in run.texts], self.words, block, rows.ids.device)
            self.units.append(units)
            self.blocks.append(list(units.counted()) if units.whole else None)

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        run, units = heads.run, self.units[heads.run.number]
        lengths = transformed_lengths(heads.attention, heads.value, heads.numbers) if self.norm else None
        output = heads.value.new_empty(*heads.query.shape[:3], heads.value.shape[-1])
        sums = torch.zeros(*heads.query.shape[:2], len(FIGURES), dtype=torch.float64)  # on the CPU: mps has no doubles
        for block in self.blocks_of(run.number, heads.window):
            within = heads.some_queries(block.queries).some_keys(block.keys)
            if weights is not None:
                weights[:, :, block.queries] = 0
            for places in self.together(within):
                some = within.some_heads(places)
                room, logarithms = self.memory.room(*some.query.shape[:3], some.key.shape[2])
                output[:, places, block.queries] = self.inside(some, room)
                if weights is not None:
                    weights[:, places, block.queries, block.keys] = room
                shares = None if lengths is None else lengths[:, places, block.keys]
                counted = self.counted(units, room, block.queries, shares)
                if counted.shape != logarithms.shape:
                    logarithms = torch.empty_like(counted)
                sums[:, places] += reduced(counted, logarithms, block.factors, block.counts).cpu()
        self.totals[np.ix_(run.texts[heads.texts], [heads.layer], heads.numbers)] = sums.numpy()[:, None]
        if self.distances:
            self.met[run.number].append(Met(heads.bare, lengths))
        return output

    def blocks_of(self, run: int, reach: Reach | None) -> Iterable[Block]:
        """The queries of a run, some after the other; in a layer that sees no further than `reach`, of one long window,
        with the keys that they can see.
        """
        units, made = self.units[run], self.blocks[run]
        if made is not None:
            return made
        if reach is None or self.words or len(units.windows) > 1:
            return units.counted()
        return units.near(reach)

    def together(self, heads: Heads) -> Iterator[slice]:
        """As many of these heads after the other as have no more weights than may be there at once."""
        count = len(heads.numbers)
        some = max(1, self.block_weights // (len(heads.query) * heads.query.shape[2] * heads.key.shape[2]))
        yield from (slice(start, min(start + some, count)) for start in range(0, count, some))

    def counted(self, units: Units, weights: Tensor, block: slice, lengths: Tensor | None) -> Tensor:
        """A block's weights as they are counted: between words, as shares of norms. What was given is written over."""
        if lengths is not None:
            weights.mul_(lengths[..., None, :])
        weights = units.merged(weights, block)
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
        units = Units([self.batch[text]], self.words, self.block_weights // (every * length), self.rows.ids.device)
        total = np.zeros((every, every))
        for block in units.blocks():
            made: dict[tuple[int, int], Tensor] = {}
            for some, lengths in met:
                room, _ = self.memory.room(1, len(some.numbers), block.stop - block.start, length)
                attend_heads(some.some_queries(block), room)
                counted = self.counted(units, room, block, lengths)[0].float().cpu().clone()
                made.update(zip(product([some.layer], some.numbers), counted, strict=True))
            maps = torch.stack([made[head] for head in product(range(layers), range(heads))])
            total += divergence_sums(maps.numpy()[:, units.counts(block)[0, 0].cpu().numpy()])
        return total
