"""Arrange texts as consecutive rows of one matrix, without [PAD] unless a text already has some.

Computations per token (projections, the feed-forward part) run on all rows in one step. Attention runs on one run of
texts of equal length at a time. A single text is a batch of one.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from attncli.base.arrays import Array, Bools, Ints, as_numpy
from attncli.models.config import ModelConfig
from attncli.text.tokens import Tokens

if TYPE_CHECKING:
    from attncli.attention import Window

T = TypeVar("T")

ROWS = 64  # batches are padded to a multiple with idle rows: oneDNN compiles and keeps a program for every size

AHEAD_TOKENS, AHEAD_WEIGHTS = 2**14, 2**26  # limits for reading ahead, unless a batch is larger


@dataclass(frozen=True)
class LayerMask:
    """The cells that a layer's queries may attend to, for texts of one length: the texts' mask and the layer's window.

    shown: bool `[1 or text, 1 or head, 1 or query, key]`, True = may attend, shared by layers; None for everything.
    window: the layer's own; None if the layer sees everything. causal: the future is hidden. Both are computed only for
    the needed queries and keys.
    """

    shown: Array | None
    window: "Window | None"
    causal: bool = False

    def of(self, queries: slice, keys: slice, device: Any = None) -> Array | None:
        """Return the mask of some queries and keys, bool `[1 or text, 1 or head, 1 or query, key]`; None if none."""
        shown = self.shown
        if shown is not None:
            shown = shown[..., slice(None) if shown.shape[2] == 1 else queries, keys]
        if self.causal:
            from attncli.attention import causal_mask

            counts = queries.stop - queries.start, keys.stop - keys.start
            past = causal_mask(*counts, device, first=queries.start - keys.start)[None, None]
            shown = past if shown is None else shown & past
        if self.window is None:
            return shown
        near = self.window.near(queries, keys, device)[None, None]
        return near if shown is None else shown & near

    def hiding(self, shown: Array) -> "LayerMask":
        """Return the mask that also hides what `shown` hides."""
        return replace(self, shown=shown if self.shown is None else shown & self.shown)

    def some_texts(self, texts: slice) -> "LayerMask":
        """Return the mask of some of the texts."""
        if self.shown is None or len(self.shown) == 1:
            return self
        return replace(self, shown=self.shown[texts])

    def some_heads(self, places: Sequence[int] | slice) -> "LayerMask":
        """Return the mask of some of the heads."""
        if self.shown is None or self.shown.shape[1] == 1:
            return self
        return replace(self, shown=self.shown[:, places])


@dataclass(frozen=True)
class RowRun:
    """Texts of one length, and their rows.

    texts: their numbers in the batch as passed in. rows: their rows.
    masks: the mask of each layer; None if nothing is hidden. For a network of transformers they are known only after a
    walk.
    shown: bool `[1 or text, token, 1]`, False at hidden [PAD]; None if nothing is hidden.
    ordered: the network receives the order of the tokens. keys: the number of keys.
    """

    number: int
    texts: list[int]
    rows: slice
    length: int
    masks: list["LayerMask | None"]
    shown: Array | None
    ordered: bool
    keys: int

    def tokens(self, rows: Array) -> Array:
        """Return the run's part of `[row, size]` as `[text, token, size]`."""
        return rows[self.rows].reshape(len(self.texts), self.length, rows.shape[-1])

    def heads(self, rows: Array) -> Array:
        """Return the run's part of `[1, head, row, head_dim]` as `[text, head, token, head_dim]`."""
        heads, size = rows.shape[1], rows.shape[-1]
        return rows[0, :, self.rows].reshape(heads, len(self.texts), self.length, size).swapaxes(0, 1)


@dataclass(frozen=True)
class Rows:
    """A batch of texts: runs of texts of one length, as rows of one matrix."""

    runs: list[RowRun]

    def texts(self, rows: Array) -> list[Array]:
        """Return each text's part of `[row, size]` as `[token, size]`, in the original order of the texts."""
        return self.in_order(run.tokens(rows) for run in self.runs)

    def last(self, rows: Array) -> list[Array]:
        """Return each text's part of the last layer's output, whose tokens are `Tokens.output_tokens`."""
        return self.texts(rows)

    def in_order(self, of_runs: Iterable[Iterable[T]]) -> list[T]:
        """Return one item per text in the original order of the texts, from the items of each run."""
        parts: dict[int, T] = {}
        for run, of_run in zip(self.runs, of_runs, strict=True):
            parts.update(zip(run.texts, of_run, strict=True))
        return [parts[text] for text in sorted(parts)]


@dataclass(frozen=True)
class OwnRows(Rows):
    """Rows with the numbers of tokens, segments and positions, `[row]` each.

    positions: None if the network does not receive the order of the tokens. idle: the number of unused rows at the end.
    """

    ids: Array
    segments: Array
    positions: Array | None
    idle: int


def batches(texts: Sequence[Sized], most_tokens: int) -> list[list[int]]:
    """Group the numbers of texts of similar length into batches, the shortest first.

    A batch has at most `most_tokens` tokens, and at least one text. Its numbers ascend.
    """
    made: list[list[int]] = []
    room = 0
    for number in sorted(range(len(texts)), key=lambda number: len(texts[number])):
        size = len(texts[number])
        if size > room:
            made.append([])
            room = max(most_tokens, size)
        made[-1].append(number)
        room -= size
    return [sorted(numbers) for numbers in made]


def read_ahead(texts: Iterable[Tokens], maps: int, together: int) -> Iterator[list[Tokens]]:
    """Yield groups of consecutive texts, as many as are read ahead when `maps` maps of each are kept.

    together: the number of tokens in a batch.
    """
    group: list[Tokens] = []
    tokens = weights = 0
    for text in texts:
        tokens, weights = tokens + len(text), weights + maps * len(text) ** 2
        if group and tokens > together and (tokens > AHEAD_TOKENS or weights > AHEAD_WEIGHTS):
            yield group
            group, tokens, weights = [], len(text), maps * len(text) ** 2
        group.append(text)
    if group:
        yield group


def every_text(length: int) -> int:
    """Put all texts of the same length into one run."""
    return sys.maxsize


def arrange(
    texts: Sequence[Tokens],
    config: ModelConfig,
    masks: Callable[[Bools], list[LayerMask | None]],
    put: Callable[[Any], Array],
    hides_padding: bool,
    positions: bool = True,
    together: Callable[[int], int] = every_text,
) -> OwnRows:
    """Return the batch of these texts, the shortest first.

    masks: returns each layer's mask from False at [PAD], bool `[text, token]`. put: converts a NumPy array to the
    network's library and device. hides_padding: the masks hide [PAD]. positions: the network receives the order of the
    tokens. together: the maximum number of texts in a run, by length.
    """
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    parts: list[tuple[Ints, Ints, Ints]] = []
    runs: list[RowRun] = []
    row = 0
    for length, same in groupby(order, key=lambda number: len(texts[number])):
        numbers = list(same)
        for start in range(0, len(numbers), most := max(1, together(length))):
            some = numbers[start : start + most]
            alike = [texts[number] for number in some]
            ids = np.array([tokens.ids for tokens in alike], np.int64)
            real = ~np.array([tokens.padding for tokens in alike], bool)
            segments = np.zeros_like(ids)
            if config.returns_segments and config.segments > 1:
                segments = np.array([tokens.segments for tokens in alike], np.int64)
            rows = slice(row, row + ids.size)
            shown = put(real[..., None]) if hides_padding and not real.all() else None
            runs.append(RowRun(len(runs), some, rows, length, masks(real), shown, positions, length))
            parts.append((ids.ravel(), segments.ravel(), _position_numbers(alike, ids, config).ravel()))
            row = rows.stop
    joined_ids, joined_segments, joined_positions = (put(np.concatenate(part)) for part in zip(*parts, strict=True))
    idle = -row % ROWS if len(texts) > 1 else 0
    return OwnRows(runs, joined_ids, joined_segments, joined_positions if positions else None, idle)


def _position_numbers(texts: Sequence[Tokens], ids: Ints, config: ModelConfig) -> Ints:
    """Return positions `[text, token]`. In RoBERTa [PAD] has its own number, and real tokens count on from there."""
    if config.padding_position is None:
        return np.array([tokens.positions for tokens in texts])
    real = (ids != config.padding_position).astype(np.int64)
    return real.cumsum(axis=1) * real + config.padding_position


def of_layers(masks: Sequence[LayerMask | None], run: RowRun, device: Any = None) -> Bools:
    """Expand the masks of a run's layers: bool `[text, layer, query, key]`, a view of one if layers share it."""
    shape = len(run.texts), 1, run.length, run.keys
    every = slice(0, run.length), slice(0, run.keys)
    made = {id(mask): True if mask is None else as_numpy(mask.of(*every, device)) for mask in masks}
    if len(made) == 1:
        [shown] = made.values()
        return np.broadcast_to(shown, (len(run.texts), len(masks), run.length, run.keys))
    return np.concatenate([np.broadcast_to(made[id(mask)], shape) for mask in masks], axis=1)
