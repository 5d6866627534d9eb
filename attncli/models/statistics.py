"""A corpus through the network, reduced to sums on the way: no map outlives its layer, and a long one is never whole.

The arithmetic is that of `Model.attend`; how texts become batches is in `attncli.models.packed`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import FIGURES, Counted, Doubles, Sums, cells
from attncli.attention import MultiHeadAttention, attend_into
from attncli.corpus import Window
from attncli.models.model import Model, check_mask_name
from attncli.models.packed import Run, batches, groups, runs

BLOCK_WEIGHTS = {"cpu": 2**20, "cuda": 2**26}  # weights that are there at once: on a CPU, what fits its cache
ROWS = 64  # a batch has a multiple of so many, some idle: oneDNN keeps a program for every number that it has met
LEAST = 1e-37  # stands for a weight of 0, which has no logarithm


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


class Reducer:
    """How a corpus is reduced: under which mask, with or without distances between heads, how much of it at once.

    batch_tokens: tokens that go through the network together; block_weights: weights that are there at once, save
    that a single query is never divided.

    Raises RequestError for a mask that there is not, or a checkpoint that can't be read.
    """

    def __init__(
        self,
        model: Model,
        mask: str = "padding",
        distances: bool = False,
        batch_tokens: int | None = None,
        block_weights: int | None = None,
    ) -> None:
        check_mask_name(mask)
        self.model = model
        self.causal = mask == "causal"  # without [PAD] the other masks hide nothing
        self.distances = distances
        self.batch_tokens = batch_tokens or model.batch_tokens
        self.block_weights = block_weights or BLOCK_WEIGHTS.get(model.device.type, BLOCK_WEIGHTS["cpu"])
        self.memory = torch.empty(2, self.block_weights, dtype=model.dtype, device=model.device)
        model.need(model.config.layers)

    def nothing(self) -> Counted:
        """What to begin with."""
        return Counted(Sums.nothing(self.model.config.layers, self.model.config.heads, self.distances))

    def count(self, texts: Iterable[list[Window]], counted: Counted) -> Iterator[Counted]:
        """Go on from what is `counted`, with the texts that it wants, in the order of their numbers. Yields how far it
        is after every batch.

        Raises RequestError where weights are no numbers.
        """
        for group in groups(texts):
            begun: dict[int, Part] = {}
            for batch in batches(group, self.batch_tokens):
                for window, part in zip(batch, self.parts(batch), strict=True):
                    whole = begun.pop(window.text).join(part) if window.text in begun else part
                    if whole.windows < window.of:
                        begun[window.text] = whole
                    else:
                        counted = counted.plus(window.text, Sums.of_text(*whole[1:]))
                yield counted
            counted = counted.up_to(group[-1].text + 1)
            group.clear()  # before the next one is read
            yield counted

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries, from one forward pass."""
        encoder, heads = self.model.encoder, self.model.config.heads
        totals = np.zeros((len(batch), len(encoder.layers), heads, len(FIGURES)))
        kept = []  # the queries and keys of each layer, where they are needed again
        with torch.inference_mode():
            divided = [(run, self.cells(run) if run.whole else None) for run in runs(batch, heads, self.block_weights)]
            x = torch.cat([self.embedded(run) for run, _ in divided])  # [row, hidden_size]
            x = F.pad(x, (0, 0, 0, -len(x) % ROWS))
            for number in range(len(encoder.layers)):
                layer = encoder.layer(number)
                last = number == len(encoder.layers) - 1
                query, key, value = projected(layer.attention, x, values=not last)
                attended = torch.zeros(len(x), heads * value.shape[-1], dtype=x.dtype, device=x.device)
                for run, meant in divided:
                    output, sums = self.attend(run, meant, query, key, value)
                    attended[run.rows], totals[run.places, number] = output, sums.numpy()
                if not last:
                    x = layer.rest(x, layer.attention.output(attended))
                if self.distances:
                    kept.append((query, key))
            divergences = [one for run, _ in divided for one in self.divergences(run, kept)]
        self.check_finite(totals)
        return [
            Part(1, window.queries, self.limit(window), its_totals, divergence)
            for window, its_totals, divergence in zip(batch, totals, divergences, strict=True)
        ]

    def embedded(self, run: Run) -> Tensor:
        """What goes into the first layer: `[row, hidden_size]`."""
        inputs = self.model.inputs([window.tokens for window in run.windows])
        return self.model.encoder.embeddings(*inputs).flatten(0, 1)

    def attend(
        self, run: Run, meant: Tensor | None, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The attention of a run in one layer, a block of queries after the other.

        query, key, value of the whole batch: `[head, row, head_dim]`; meant: `cells` of the run, where it is one block.
        Returns its rows of the output `[row, hidden_size]`, and float64 sums `[window, head, figure]`.
        """
        query, key, value = run.texts(query), run.texts(key), run.texts(value)  # [window, head, token, head_dim]
        output = torch.empty_like(value)
        sums = torch.zeros(*query.shape[:2], len(FIGURES), dtype=torch.float64)  # on the CPU: mps has no such numbers
        for block in run.blocks():
            weights, logarithms = self.room(*query.shape[:2], block.stop - block.start, run.length)
            output[:, :, block] = attend_into(weights, query[:, :, block], key, value, self.mask(block, run.length))
            block_meant = self.cells(run, block) if meant is None else meant
            sums += reduced(weights, logarithms, block_meant, self.counts(run, block)).cpu()
        return output.transpose(1, 2).flatten(2).flatten(0, 1), sums

    def divergences(self, run: Run, kept: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Doubles | None]:
        """For each window of a run, the sum over its queries of the divergence between each two heads of all layers.

        The maps are computed again from the layers' queries and keys, `[head, row, head_dim]`: at no time is there
        more of them than a block.
        """
        if not kept:
            yield from [None] * len(run.windows)
            return
        every = len(kept) * len(kept[0][0])
        block = max(1, self.block_weights // (every * run.length))
        for number, window in enumerate(run.windows):
            queries, keys = (torch.cat([run.texts(layer[part])[number] for layer in kept]) for part in (0, 1))
            total = np.zeros((every, every))
            for start in range(window.counted[0], window.counted[1], block):
                rows = slice(start, min(start + block, window.counted[1]))
                weights, _ = self.room(every, rows.stop - rows.start, run.length)
                attend_into(weights, queries[:, rows], keys, keys[..., :0], self.mask(rows, run.length))
                total += divergence_sums(weights.float().cpu().numpy())
            yield total

    def room(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Two tensors of this shape, in memory that every block uses again: new blocks would leave gaps in it."""
        count = math.prod(shape)
        if count > self.memory.shape[1]:
            self.memory = self.memory.new_empty(2, count)
        return self.memory[0, :count].view(shape), self.memory[1, :count].view(shape)

    def mask(self, block: slice, length: int) -> Tensor | None:
        """`[query, key]` of some queries; None where nothing is hidden."""
        if not self.causal:
            return None
        return torch.ones(block.stop - block.start, length, dtype=torch.bool, device=self.model.device).tril(
            block.start
        )

    def cells(self, run: Run, block: slice | None = None) -> Tensor:
        """`cells` of some queries of a run's windows, or of all: `[window, figure, query, key]`."""
        rows = slice(0, run.length) if block is None else block
        made = np.stack([cells(window, rows.start, rows.stop) for window in run.windows])
        return torch.from_numpy(made).to(self.model.device)

    def counts(self, run: Run, block: slice) -> Tensor:
        """1 for each of a block's queries that counts, else 0: `[window, 1, query]`."""
        places = np.arange(block.start, block.stop)
        made = [(window.counted[0] <= places) & (places < window.counted[1]) for window in run.windows]
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
    rest = weights.flatten(2) @ meant.flatten(2).transpose(1, 2).to(weights.dtype)
    return torch.cat([(entropy * counts).sum(-1, True), (strongest * counts).sum(-1, True), rest], dim=-1)


def projected(attention: MultiHeadAttention, x: Tensor, values: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of all rows, `[head, row, head_dim]`; values that nobody needs have a width of 0."""
    if values:
        query, key, value = attention.project(x[None])
    else:
        query, key = (attention.split_heads(linear(x[None])) for linear in (attention.query, attention.key))
        value = key[..., :0]
    return query[0], key[0], value[0]
