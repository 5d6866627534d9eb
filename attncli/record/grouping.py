"""What stands along the axes of a map: each token of a text, or some of them, or words, or stretches of a long text.

An engine keeps maps between these in place of maps between tokens (`attncli.models.taps`), and a record that has
maps between tokens is made one between these here. Both add up by `between_units`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attncli.base.arrays import Doubles, Ints
from attncli.base.printable import shorten
from attncli.record.parts import Part
from attncli.record.record import AttentionRecord
from attncli.record.request import Grouping
from attncli.record.selection import number_list, select
from attncli.text.tokens import Tokens, joined, word_groups, word_tokens

LONG = 1024  # tokens: of more, stretches are shown where every token would take a line or an element of a page
MOST = 512  # stretches
BEGINNING = 24  # characters of a stretch that are shown


@dataclass(frozen=True)
class Axis:
    """What stands along one axis of a map: units, each of one token of a text or of several neighbours.

    places: of the tokens that the units are of, ascending; starts: where among these each unit begins; shares: what
    the row of each counts in the mean that is its unit's, 1 in all. Both None where each token is a unit.
    tokens: the units, as the tokens of a record; text: how many tokens the text has.
    """

    tokens: Tokens
    places: Ints
    text: int
    starts: Ints | None = None
    shares: Doubles | None = None

    @classmethod
    def every(cls, tokens: Tokens) -> "Axis":
        """Each token is a unit."""
        return cls(tokens, np.arange(len(tokens)), len(tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def whole(self) -> bool:
        """Whether each token is a unit, and none is left out."""
        return self.starts is None and len(self.places) == self.text

    @property
    def taken(self) -> Ints | slice:
        """The places, as a slice where they are neighbours: that makes no copy."""
        first, last = int(self.places[0]), int(self.places[-1]) + 1
        return slice(first, last) if last - first == len(self.places) else self.places

    @cached_property
    def units(self) -> Ints:
        """Of each token that is taken the number of its unit."""
        if self.starts is None:
            return np.arange(len(self.places))
        return np.repeat(np.arange(len(self)), np.diff(self.starts, append=len(self.places)))

    @property
    def groups(self) -> list[list[int]]:
        """Of each unit the places of its tokens."""
        starts = range(len(self.places)) if self.starts is None else self.starts
        return [part.tolist() for part in np.split(self.places, list(starts)[1:])]

    def only(self, chosen: Sequence[int]) -> "Axis":
        """The tokens at these places alone, each a unit."""
        return Axis(self.tokens.take(chosen), self.places[list(chosen)], self.text)

    def merged(self, groups: Sequence[Sequence[int]], tokens: Tokens) -> "Axis":
        """Neighbouring units put together: each of `groups` becomes one of `tokens`. Rows of a group are averaged."""
        first = np.array([group[0] for group in groups])
        sizes = np.repeat([len(group) for group in groups], [len(group) for group in groups])
        starts = first if self.starts is None else self.starts[first]
        shares = (1.0 if self.shares is None else self.shares) / sizes[self.units]
        return replace(self, tokens=tokens, starts=starts, shares=shares)


class Axes(NamedTuple):
    """Those of a text's maps; part: what is to be said of them where they are no longer all of a text's tokens."""

    queries: Axis
    keys: Axis
    part: Part | None

    @property
    def whole(self) -> bool:
        return self.queries.whole and self.keys.whole

    @property
    def apart(self) -> bool:
        """Whether each unit is one token."""
        return self.queries.starts is None and self.keys.starts is None


def axes_of(grouping: Grouping, tokens: Tokens, key_tokens: Tokens | None = None) -> Axes:
    """Those of a text with these tokens, and of another text's keys if it attends to these.

    There are stretches where there are more than LONG units on one side: MOST at most, of neighbours.

    Raises RequestError for tokens that are not there.
    """
    sides = [Axis.every(one) for one in (tokens, key_tokens) if one is not None]
    chosen = ""
    if grouping.tokens is not None:
        places = sorted(select(grouping.tokens, len(tokens), "token"))
        sides[0], chosen = sides[0].only(places), "" if len(places) == len(tokens) else number_list(places)
    if grouping.words:
        sides = [side.merged(word_groups(side.tokens), word_tokens(side.tokens)) for side in sides]
    count, longest, size = len(sides[0]), max(map(len, sides)), 1
    if grouping.stretches and longest > LONG:
        size = -(-longest // MOST)
        sides = [side.merged(groups := stretches(len(side)), stretch_tokens(side.tokens, groups)) for side in sides]
    part = Part(len(tokens), chosen, "words" if grouping.words else "tokens", count, size)
    return Axes(sides[0], sides[-1], part if chosen or size > 1 else None)


def stretches(units: int) -> list[list[int]]:
    """The numbers of each stretch's units; all stretches but the last are of one size."""
    size = -(-units // MOST)
    return [list(range(start, min(start + size, units))) for start in range(0, units, size)]


def stretch_tokens(tokens: Tokens, groups: list[list[int]]) -> Tokens:
    """Each stretch as a token, named by the first and the last of its tokens and how it begins: "16-31 the cat"."""
    names = [number_list(group) for group in groups]
    begin = [shorten(joined([tokens.shown[place] for place in group]).strip(), BEGINNING) for group in groups]
    starts = [group[0] for group in groups]
    return replace(
        tokens.take(starts),
        text=names,
        words=list(range(len(groups))),
        offsets=[(tokens.offsets[group[0]][0], tokens.offsets[group[-1]][1]) for group in groups],
        special=[all(tokens.special[place] for place in group) for group in groups],
        padding=[all(tokens.padding[place] for place in group) for group in groups],
        shown=[f"{name} {text}" for name, text in zip(names, begin, strict=True)],
        written=["".join(tokens.written[place] for place in group) for group in groups],
    )


def grouped(record: AttentionRecord, grouping: Grouping) -> AttentionRecord:
    """A record between tokens as one between what a grouping makes of them.

    Weights to the tokens of a unit add up, weights from them are averaged: rows still sum to 1, and nothing is left
    out (Clark et al. 2019, section 4.1, for words). A unit may attend to another when any of its tokens may to any.
    Queries and keys (`vectors`) are of tokens and are left out where these are put together.

    Raises RequestError for tokens that are not there.
    """
    axes = axes_of(grouping, record.tokens, record.key_tokens)
    if axes.whole:
        return record
    queries, keys, part = axes
    every = slice(0, queries.text), slice(0, keys.text)
    allowed = to_units(queries, every[0], to_units(keys, every[1], record.compact_masks, -1)[1], -2)[1]
    kept = None if record.vectors is None or not axes.apart else record.vectors.between(queries.taken, keys.taken)
    return replace(
        record,
        weights=between_units(axes, *every, record.weights)[2].copy(),  # so that the large map is not kept for it
        masks=allowed.copy(),
        tokens=queries.tokens,
        key_tokens=None if record.key_tokens is None else keys.tokens,
        vectors=kept,
        part=part or record.part,
        prediction=None if record.prediction is None else record.prediction.between(queries.groups),
    )


def between_units(axes: Axes, queries: slice, keys: slice, rows: Any) -> tuple[slice, slice, Any]:
    """Return what some rows `[..., query, key]` of a text add to the map between its units.

    queries, keys: the neighbouring tokens that the rows lead from and to. Returns the units of the queries, the units
    of the keys, and the map between these, `[..., unit, unit]`. A unit whose tokens are in two blocks is the sum of
    both. rows: of NumPy or of torch.
    """
    of_keys, sums = to_units(axes.keys, keys, rows, -1)
    of_queries, sums = to_units(axes.queries, queries, sums, -2, axes.queries.shares)
    return of_queries, of_keys, sums


def to_units(axis: Axis, tokens: slice, rows: Any, along: int, shares: Doubles | None = None) -> tuple[slice, Any]:
    """Add up an array's entries for some neighbouring tokens to entries for their units, along -1 or -2.

    shares: factor of the row of each token that is taken. Returns the units, and the sums. True or False are added up
    to True where any is.
    """
    start, stop = np.searchsorted(axis.places, [tokens.start, tokens.stop])
    units = axis.units[start:stop]
    taken = counted_from(tokens.start, axis.places[start:stop])
    rows = rows[..., taken] if along == -1 else rows[..., taken, :]
    if shares is not None:
        factors = shares[start:stop, None]
        rows = rows * (factors.astype(rows.dtype) if isinstance(rows, np.ndarray) else rows.new_tensor(factors))
    first, last = (int(units[0]), int(units[-1]) + 1) if len(units) else (0, 0)
    if last - first == len(units):  # each is a unit
        return slice(first, last), rows
    if isinstance(rows, np.ndarray):
        starts = np.flatnonzero(np.diff(units, prepend=first - 1))
        return slice(first, last), np.add.reduceat(rows, starts, axis=along, dtype=rows.dtype)
    shape = list(rows.shape)
    shape[along] = last - first
    targets = rows.new_empty(0).long().new_tensor(units - first)  # of torch, which is not imported here
    return slice(first, last), rows.new_zeros(shape).index_add_(along, targets, rows)


def counted_from(first: int, places: Ints) -> list[int] | slice:
    """Count places from `first` on; neighbours become a slice, which copies nothing."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]) - first, int(places[-1]) + 1 - first)
    return [int(place) - first for place in places]
