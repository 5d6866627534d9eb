"""Group the tokens on the axes of a map into units: single tokens, words, lines, sentences, parts of the text, or
stretches of a long text.

Engines keep maps between these units instead of maps between tokens (`attncli.models.taps`). `group_record` converts a
record of token maps. Both sum with `between_units`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from attncli.base.arrays import Doubles, Ints
from attncli.base.printable import shorten
from attncli.record.parts import AxisUnits
from attncli.record.record import AttentionRecord
from attncli.record.selection import Grouping, number_list, select, select_queries
from attncli.text.tokens import Tokens, joined, word_groups, word_tokens
from attncli.text.units import PartedText, unit_tokens

LONG = 1024  # tokens: longer texts show stretches, since one line or page element per token would be too many
MOST = 512  # stretches
BEGINNING = 24  # characters displayed of a stretch


@dataclass(frozen=True)
class Axis:
    """The units on one axis of a map. A unit is one token of a text, or several neighbouring ones.

    places: the indices of the tokens that are in units, ascending. starts: where in `places` each unit begins. shares:
    the factor of each token's row in the mean of its unit; they sum to 1. Both are None if each token is a unit.
    tokens: the units as the tokens of a record. positions: the positions of all tokens of the text, as in `Tokens`.
    """

    tokens: Tokens
    places: Ints
    positions: Ints
    starts: Ints | None = None
    shares: Doubles | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_complete(self) -> bool:
        """Return True if each token is a unit and none is omitted."""
        return self.starts is None and len(self.places) == self.text_length

    @property
    def index(self) -> Ints | slice:
        """Return the places, as a slice if they are contiguous, which avoids a copy."""
        first, last = int(self.places[0]), int(self.places[-1]) + 1
        return slice(first, last) if last - first == len(self.places) else self.places

    @property
    def text_length(self) -> int:
        """Return the number of tokens in the text."""
        return len(self.positions)

    @cached_property
    def units(self) -> Ints:
        """Return the unit number of each selected token."""
        if self.starts is None:
            return np.arange(len(self.places))
        return np.repeat(np.arange(len(self)), np.diff(self.starts, append=len(self.places)))

    @cached_property
    def groups(self) -> list[list[int]]:
        """Return the token places of each unit."""
        starts = range(len(self.places)) if self.starts is None else self.starts
        return [part.tolist() for part in np.split(self.places, list(starts)[1:])]

    def only(self, chosen: Sequence[int]) -> "Axis":
        """Return the axis of the tokens at these places, each a unit."""
        return Axis(self.tokens.take(chosen), self.places[list(chosen)], self.positions)

    def merged(self, groups: Sequence[Sequence[int]], tokens: Tokens) -> "Axis":
        """Merge neighbouring units: each of `groups` becomes one of `tokens`. Rows of a group are averaged."""
        first = np.array([group[0] for group in groups])
        sizes = np.repeat([len(group) for group in groups], [len(group) for group in groups])
        starts = first if self.starts is None else self.starts[first]
        shares = (1.0 if self.shares is None else self.shares) / sizes[self.units]
        return replace(self, tokens=tokens, starts=starts, shares=shares)


class Axes(NamedTuple):
    """The axes of a text's maps. part: describes them if they are not all tokens of the text."""

    queries: Axis
    keys: Axis
    part: AxisUnits | None

    @property
    def are_complete(self) -> bool:
        return self.queries.is_complete and self.keys.is_complete

    @property
    def are_tokens(self) -> bool:
        """Return True if each unit is a single token."""
        return self.queries.starts is None and self.keys.starts is None


def axes_of(grouping: Grouping, tokens: Tokens, key_tokens: Tokens | None = None) -> Axes:
    """Return the axes of a text's maps, with another text's keys if it attends to `key_tokens`.

    If a side has more than LONG units, they are merged into at most MOST stretches of neighbours. Raises RequestError
    for tokens that do not exist.
    """
    sides = [Axis(one, np.arange(len(one)), one.positions) for one in (tokens, key_tokens) if one is not None]
    chosen = ""
    if grouping.tokens is not None:
        places = sorted(select(grouping.tokens, len(tokens), "token"))
        sides[0], chosen = sides[0].only(places), "" if len(places) == len(tokens) else number_list(places)
    rows: list[Axis] = []
    if grouping.queries is not None and len(places := select_queries(grouping.queries, tokens)) < len(tokens):
        rows, sides = [sides[0].only(places)], sides[-1:]
    if grouping.words:
        sides = [side.merged(word_groups(side.tokens), word_tokens(side.tokens)) for side in sides]
    elif grouping.long_units:
        placed = [
            len(sides) == 1 or any(end for _, end in one.tokens.offsets) for one in sides
        ]  # generated tokens have no offsets
        sides = [
            one.merged(*units_of(one.tokens, grouping)) if known else one
            for one, known in zip(sides, placed, strict=True)
        ]
    whole = sides[0] if chosen else max(sides, key=lambda side: side.text_length)
    count, longest, size = len(whole), max(map(len, sides)), 1
    if grouping.stretches and longest > LONG:
        size = -(-longest // MOST)
        sides = [side.merged(groups := stretches(len(side)), stretch_tokens(side.tokens, groups)) for side in sides]
    part = AxisUnits(whole.text_length, chosen, f"{grouping.unit}s", count, size)
    return Axes([*rows, *sides][0], sides[-1], part if chosen or part.stretched else None)


def units_of(tokens: Tokens, grouping: Grouping) -> tuple[list[list[int]], Tokens]:
    """Return the tokens of each line, sentence or part of a text, and these units as tokens.

    The first token, which decoders use as a sink, and special tokens added by the tokenizer are units of their own.
    """
    alone = [(-1, place, "") for place in range(len(tokens))]
    found = list(alone)  # the segment, the beginning and the name of each token's unit
    for segment in sorted(set(tokens.segments)):
        text = "".join(one for one, part in zip(tokens.written, tokens.segments, strict=True) if part == segment)
        known = grouping.parted if segment == 0 else None
        parted = known if known is not None and known.text.startswith(text) else PartedText(text)
        units = parted.units(grouping.unit)
        spans = [(unit.start, unit.end) for unit in units]
        for unit, places in zip(units, unit_tokens(tokens, spans, segment), strict=True):
            several = grouping.unit != "part" and parted.parts
            name = f"{unit.name}: " if several else unit.name if grouping.unit == "part" else ""
            for place in places:
                found[place] = (segment, unit.start, name)
    found[tokens.first] = alone[tokens.first]
    groups = [[place for place, _ in run] for _, run in groupby(enumerate(found), lambda one: one[1])]
    written = ["".join(tokens.written[place] for place in group) for group in groups]
    shown = [joined([tokens.shown[place] for place in group]) for group in groups]
    texts = [" ".join((one if one.strip() else other).split()) for one, other in zip(written, shown, strict=True)]
    names = [found[group[0]][-1] for group in groups]
    if grouping.unit == "part":
        texts = [name or text for name, text in zip(names, texts, strict=True)]
        named = texts
    else:
        named = [name + shorten(text, BEGINNING) for name, text in zip(names, texts, strict=True)]
    in_none = [found[group[0]] == alone[group[0]] for group in groups]
    shown = [one if apart else name for one, apart, name in zip(shown, in_none, named, strict=True)]
    return groups, merged_tokens(tokens, groups, texts, shown)


def stretches(units: int) -> list[list[int]]:
    """Return the unit numbers of each stretch. All stretches except the last have the same size."""
    size = -(-units // MOST)
    return [list(range(start, min(start + size, units))) for start in range(0, units, size)]


def stretch_tokens(tokens: Tokens, groups: list[list[int]]) -> Tokens:
    """Return each stretch as a token, named by its first and last token and its beginning: "16-31 the cat"."""
    names = [number_list(group) for group in groups]
    begin = [shorten(joined([tokens.shown[place] for place in group]).strip(), BEGINNING) for group in groups]
    return merged_tokens(tokens, groups, names, [f"{name} {text}" for name, text in zip(names, begin, strict=True)])


def merged_tokens(tokens: Tokens, groups: list[list[int]], text: list[str], shown: list[str]) -> Tokens:
    """Return each group as a token with this text, and as a separate word."""
    starts = [group[0] for group in groups]
    return replace(
        tokens.take(starts),
        text=text,
        words=list(range(len(groups))),
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[all(tokens.special[place] for place in group) for group in groups],
        padding=[all(tokens.padding[place] for place in group) for group in groups],
        shown=shown,
        written=["".join(tokens.written[place] for place in group) for group in groups],
    )


def group_record(record: AttentionRecord, grouping: Grouping) -> AttentionRecord:
    """Convert a record between tokens to one between the units of a grouping.

    Weights to the tokens of a unit are summed; weights from them are averaged. So rows still sum to 1, and nothing is
    lost (Clark et al. 2019, section 4.1, for words). A unit may attend to another if any of its tokens may attend to
    any of the other's. `vectors` belong to tokens and are dropped if tokens are merged.

    Raises RequestError for tokens that do not exist.
    """
    axes = axes_of(grouping, record.tokens, record.key_tokens)
    if axes.are_complete:
        return record
    queries, keys, part = axes
    every = slice(0, queries.text_length), slice(0, keys.text_length)
    rows = None
    if not record.crosses and (record.rows is not None or queries is not keys):
        rows = keys.units[record.places[[group[0] for group in queries.groups]]].tolist()
    allowed = to_units(queries, every[0], to_units(keys, every[1], record.compact_masks, -1)[1], -2)[1]
    kept = None if record.vectors is None or not axes.are_tokens else record.vectors.between(queries.index, keys.index)
    return replace(
        record,
        weights=between_units(axes, *every, record.weights)[2].copy(),  # a copy, so that the large map is freed
        masks=allowed.copy(),
        tokens=queries.tokens,
        key_tokens=keys.tokens if record.crosses or rows is not None else None,
        rows=rows,
        vectors=kept,
        part=part or record.part,
        prediction=None if record.prediction is None else record.prediction.between(queries.groups),
        usual=record.usual if axes.are_tokens else None,
        written=first_unit(queries.groups, record.written),
    )


def first_unit(groups: Sequence[Sequence[int]], place: int | None) -> int | None:
    """Return the number of the first group that begins at this token or after it; None if there is none."""
    if place is None:
        return None
    return next((number for number, group in enumerate(groups) if group[0] >= place), None)


def between_units(axes: Axes, queries: slice, keys: slice, rows: Any) -> tuple[slice, slice, Any]:
    """Sum some rows `[..., query, key]` of a text for the map between its units.

    queries, keys: the neighbouring tokens that the rows cover. Returns the units of the queries, the units of the keys,
    and the map between these, `[..., unit, unit]`. If a unit spans two blocks, the caller adds both. rows: a NumPy
    array or torch tensor.
    """
    of_keys, sums = to_units(axes.keys, keys, rows, -1)
    of_queries, sums = to_units(axes.queries, queries, sums, -2, axes.queries.shares)
    return of_queries, of_keys, sums


def to_units(axis: Axis, tokens: slice, rows: Any, along: int, shares: Doubles | None = None) -> tuple[slice, Any]:
    """Sum an array's entries for neighbouring tokens to entries for their units, along axis -1 or -2.

    shares: the factor of each selected token's row. Returns the units and the sums. Bools are combined with "or".
    """
    start, stop = np.searchsorted(axis.places, [tokens.start, tokens.stop])
    units = axis.units[start:stop]
    here = axis.places[start:stop] - tokens.start
    neighbours = len(here) > 0 and here[-1] - here[0] == len(here) - 1
    taken = slice(int(here[0]), int(here[-1]) + 1) if neighbours else here.tolist()  # a slice copies nothing
    rows = rows[..., taken] if along == -1 else rows[..., taken, :]
    if shares is not None:
        factors = shares[start:stop, None]
        rows = rows * (factors.astype(rows.dtype) if isinstance(rows, np.ndarray) else rows.new_tensor(factors))
    first, last = (int(units[0]), int(units[-1]) + 1) if len(units) else (0, 0)
    if last - first == len(units):  # each token is a unit
        return slice(first, last), rows
    if isinstance(rows, np.ndarray):
        starts = np.flatnonzero(np.diff(units, prepend=first - 1))
        return slice(first, last), np.add.reduceat(rows, starts, axis=along, dtype=rows.dtype)
    shape = list(rows.shape)
    shape[along] = last - first
    targets = rows.new_empty(0).long().new_tensor(units - first)  # a torch tensor, made without importing torch
    return slice(first, last), rows.new_zeros(shape).index_add_(along, targets, rows)


def merge_words(record: AttentionRecord) -> AttentionRecord:
    """Return the record between words instead of pieces. Its tokens are words (`group_record`)."""
    return group_record(record, Grouping(unit="word"))
