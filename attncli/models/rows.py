"""Arrange texts as consecutive rows of one matrix, without [PAD] unless a text already has some.

Computations per token (projections, the feed-forward part) run on all rows in one step. Attention runs on one run of
texts of equal length at a time. A single text is a batch of one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor

from attncli.attention import MASKS, Window, self_mask
from attncli.attention.masks import no_padding
from attncli.models.config import ModelConfig
from attncli.text.tokens import Tokens

T = TypeVar("T")

ROWS = 64  # batches are padded to a multiple with idle rows: oneDNN compiles and keeps a program for every size

AHEAD_TOKENS, AHEAD_WEIGHTS = 2**14, 2**26  # limits for reading ahead, unless a batch is larger


@dataclass(frozen=True)
class LayerMask:
    """The cells that a layer's queries may attend to, for texts of one length: the texts' mask and the layer's window.

    shown: bool `[1 or text, 1 or head, 1 or query, key]`, True = may attend, shared by layers; None for everything.
    window: the layer's own, computed only for the needed queries and keys; None if the layer sees everything.
    """

    shown: Tensor | None
    window: Window | None

    def of(self, queries: slice, keys: slice, device: torch.device | None = None) -> Tensor | None:
        """Return the mask of some queries and keys: bool `[1 or text, 1 or head, 1 or query, key]`; None if nothing is
        hidden.
        """
        shown = self.shown
        if shown is not None:
            shown = shown[..., slice(None) if shown.shape[2] == 1 else queries, keys]
        if self.window is None:
            return shown
        near = self.window.near(queries, keys, device)[None, None]
        return near if shown is None else shown & near

    def some_texts(self, texts: slice) -> "LayerMask":
        """Return the mask of some of the texts."""
        if self.shown is None or len(self.shown) == 1:
            return self
        return LayerMask(self.shown[texts], self.window)

    def some_heads(self, places: Sequence[int] | slice) -> "LayerMask":
        """Return the mask of some of the heads."""
        if self.shown is None or self.shown.shape[1] == 1:
            return self
        return LayerMask(self.shown[:, places], self.window)


@dataclass(frozen=True)
class Run:
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
    shown: Tensor | None
    ordered: bool
    keys: int

    def tokens(self, rows: Tensor) -> Tensor:
        """Return the run's part of `[row, size]` as `[text, token, size]`."""
        return rows[self.rows].unflatten(0, (len(self.texts), self.length))

    def heads(self, rows: Tensor) -> Tensor:
        """Return the run's part of `[1, head, row, head_dim]` as `[text, head, token, head_dim]`."""
        return rows[0, :, self.rows].unflatten(1, (len(self.texts), self.length)).transpose(0, 1)


@dataclass(frozen=True)
class Rows:
    """A batch of texts: runs of texts of one length, as rows of one matrix."""

    runs: list[Run]

    def texts(self, rows: Tensor) -> list[Tensor]:
        """Return each text's part of `[row, size]` as `[token, size]`, in the original order of the texts."""
        return self.in_order(run.tokens(rows) for run in self.runs)

    def last(self, rows: Tensor) -> list[Tensor]:
        """Return each text's part of the last layer's output, whose tokens are `Tokens.spoken`."""
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

    ids: Tensor
    segments: Tensor
    positions: Tensor | None
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
    return torch.iinfo(torch.int64).max


def as_rows(
    texts: Sequence[Tokens],
    config: ModelConfig,
    mask: str,
    device: torch.device,
    positions: bool = True,
    together: Callable[[int], int] = every_text,
) -> OwnRows:
    """Return the batch of these texts under a mask of MASKS, the shortest first.

    positions: the network receives the order of the tokens. together: the maximum number of texts in a run, by length.
    """
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    runs: list[Run] = []
    row = 0
    for length, same in groupby(order, key=lambda number: len(texts[number])):
        numbers = list(same)
        for start in range(0, len(numbers), most := max(1, together(length))):
            some = numbers[start : start + most]
            ids, segments, real = numbers_of([texts[number] for number in some], config, device)
            rows = slice(row, row + ids.numel())
            masks = layer_masks(real, config, mask)
            hides = no_padding in MASKS[mask] and not bool(real.all())
            runs.append(
                Run(len(runs), some, rows, length, masks, real[..., None] if hides else None, positions, length)
            )
            parts.append((ids.flatten(), segments.flatten(), _position_numbers(ids, config).flatten()))
            row = rows.stop
    joined_ids, joined_segments, joined_positions = (torch.cat(part) for part in zip(*parts, strict=True))
    idle = -row % ROWS if len(texts) > 1 else 0
    return OwnRows(runs, joined_ids, joined_segments, joined_positions if positions else None, idle)


def numbers_of(texts: Sequence[Tokens], config: ModelConfig, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, segments, and False at [PAD], `[text, token]`. Some networks receive one segment only."""
    ids = torch.tensor([tokens.ids for tokens in texts], device=device)
    real = torch.tensor([[not padding for padding in tokens.padding] for tokens in texts], device=device)
    if config.tells_segments and config.segments > 1:
        return ids, torch.tensor([tokens.segments for tokens in texts], device=device), real
    return ids, torch.zeros_like(ids), real


def _position_numbers(ids: Tensor, config: ModelConfig) -> Tensor:
    """Return positions `[text, token]`: 0, 1, 2, ...; in RoBERTa [PAD] has its own number, and real tokens count on
    from there.
    """
    if config.padding_position is None:
        return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    real = (ids != config.padding_position).long()
    return real.cumsum(dim=1) * real + config.padding_position


def layer_masks(real: Tensor, config: ModelConfig, name: str) -> list[LayerMask | None]:
    """Return for each layer the mask of this name combined with the layer's window; None if everything is allowed.

    real: False at [PAD], bool `[text, token]`. Layers with the same window share a mask, and so do texts without [PAD].
    """
    length = real.shape[1]
    real = real[:1] if bool(real.all()) else real
    mask = self_mask(real, *MASKS[name])
    shown = None if bool(mask.all()) else mask
    windows = [None if reach is None or reach >= length - 1 else Window(reach) for reach in config.reach]
    made = {window: LayerMask(shown, window) for window in set(windows)}
    return [None if window is None and shown is None else made[window] for window in windows]


def of_layers(masks: Sequence[LayerMask | None], run: Run, device: torch.device) -> Tensor:
    """Expand the masks of a run's layers: bool `[text, layer, query, key]`, a view of one if layers share it."""
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    shape = len(run.texts), 1, run.length, run.keys
    queries, keys = slice(0, run.length), slice(0, run.keys)
    made = {id(mask): None if mask is None else mask.of(queries, keys, device) for mask in masks}
    shown = [made[id(mask)] for mask in masks]
    whole = [(everything if mask is None else mask).expand(shape) for mask in shown]
    if all(mask is masks[0] for mask in masks):
        return whole[0].expand(len(run.texts), len(masks), run.length, run.keys)
    return torch.cat(whole, dim=1)
