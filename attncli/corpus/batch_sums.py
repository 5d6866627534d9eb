"""A batch through the network, reduced to sums on the way: no map outlives its layer, and a long one is never whole.

The arithmetic is that of `Model.attend`; how texts become batches is in `attncli.corpus.packed`.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import FIGURES, Counting
from attncli.attention import MASKS, MultiHeadAttention, attend_into
from attncli.base.arrays import Doubles
from attncli.corpus.packed import Run, runs
from attncli.corpus.sums import Block, Part, divide_rows, reduced
from attncli.corpus.units import Units
from attncli.models.model import Model
from attncli.models.norms import transformed_lengths
from attncli.text.windows import Window

ROWS = 64  # a batch has a multiple of so many, some idle: oneDNN keeps a program for every number that it has met


class BatchSums:
    """What adds up the weights of batches; several threads may, each a batch of its own.

    block_weights: weights that are there at once, save that a single query, or the pieces of one word, are never
    divided.
    """

    def __init__(self, model: Model, counting: Counting, block_weights: int) -> None:
        self.model = model
        self.counting = counting
        self.mask = MASKS[counting.mask]
        self.norm = counting.measure == "norm"
        self.block_weights = block_weights
        self.memory = threading.local()  # see `room`

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries, from one forward pass."""
        encoder, heads = self.model.encoder, self.model.config.heads
        totals = np.zeros((len(batch), len(encoder.layers), heads, len(FIGURES)))
        kept = []  # what each layer's maps are made of, where they are needed again
        with torch.inference_mode():
            divided = []
            for run in runs(batch, heads, self.block_weights):
                units = Units(run, self.counting.words, self.model.device)
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
                if self.counting.distances:
                    kept.append((query, key, lengths))
            divergences = [one for units, _ in divided for one in self.divergences(units, kept)]
        self.check_finite(totals)
        windows = [window for units, _ in divided for window in units.windows]
        return [
            Part(1, window.queries, np.full(len(its_totals), self.limit(window)), its_totals, divergence)
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
            sums += reduced(weights, logarithms, block.factors, block.counts).cpu()
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
            alone = Units(Run([window], slice(0, 1), place, size), self.counting.words, self.model.device)
            query, key = (torch.cat([one[:, place] for one in of_layers])[None] for of_layers in (queries, keys))
            total, allowed = np.zeros((every, every)), self.allowed(run.length)
            for block in alone.blocks(size):
                weights, _ = self.room(1, every, block.stop - block.start, run.length)
                attend_into(weights, query[:, :, block], key, key[..., :0], some_queries(allowed, block))
                if lengths:
                    weights.mul_(torch.cat(lengths)[None, :, None, place])
                weights = alone.merged(weights, block)
                if lengths:
                    divide_rows(weights)
                counts = alone.counts(block)[0, 0].cpu().numpy()
                total += divergence_sums(weights[0].float().cpu().numpy()[:, counts])
            yield total

    def blocks(self, units: Units) -> Iterator[Block]:
        """The blocks of a run's queries."""
        allowed = self.allowed(units.run.length)
        for block in units.blocks(units.run.block):
            yield Block(
                block.start, block.stop, some_queries(allowed, block), units.factors(block), units.counts(block)
            )

    def room(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Two tensors of this shape, in memory that every block uses again: new blocks would leave gaps in it.

        Each thread has its own.
        """
        count, memory = math.prod(shape), getattr(self.memory, "two", None)
        if memory is None or count > memory.shape[1]:
            size = 2, max(count, self.block_weights)
            memory = self.memory.two = torch.empty(size, dtype=self.model.dtype, device=self.model.device)
        return memory[0, :count].view(shape), memory[1, :count].view(shape)

    def allowed(self, length: int) -> Tensor | None:
        """What a text without [PAD] may attend to: bool `[1 or query, key]`; None where nothing is hidden."""
        mask = self.mask(torch.ones(1, length, dtype=torch.bool, device=self.model.device))[0, 0]
        return None if bool(mask.all()) else mask

    def limit(self, window: Window) -> float:
        """The sum over a window's queries of ln(how many keys each may attend to)."""
        allowed = self.allowed(len(window))
        if allowed is None:
            return window.queries * math.log(len(window))
        keys = allowed.expand(len(window), -1).sum(-1)[slice(*window.counted)].tolist()
        return sum(math.log(count) for count in keys if count)

    def check_finite(self, totals: Doubles) -> None:
        """Raises RequestError when a head's sums `[window, layer, head, figure]` are no numbers."""
        bad = np.argwhere(~np.isfinite(totals))
        if len(bad):
            raise self.model.too_large("scores", int(bad[0][1]), int(bad[0][2]))


def some_queries(mask: Tensor | None, block: slice) -> Tensor | None:
    """Their rows of a mask `[1 or query, key]`."""
    return mask if mask is None or len(mask) == 1 else mask[block]


def projected(attention: MultiHeadAttention, x: Tensor, values: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of all rows, `[head, row, head_dim]`; values that nobody needs have a width of 0."""
    if values:
        query, key, value = attention.project(x[None])
    else:
        query, key = (attention.split_heads(linear(x[None])) for linear in (attention.query, attention.key))
        value = key[..., :0]
    return query[0], key[0], value[0]
