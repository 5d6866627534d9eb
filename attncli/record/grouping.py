"""What stands along the axes of a map: each token of a text, or some of them, or words, or stretches of a long text.

An engine keeps maps between these in place of maps between tokens (`attncli.models.grouping`), and a record that has
maps between tokens is made one between these here: by the same rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attncli.base.arrays import Bools, Doubles, Floats, Ints
from attncli.base.printable import shorten
from attncli.record.parts import Part
from attncli.record.record import AttentionRecord
from attncli.record.request import Grouping
from attncli.record.selection import number_list, select
from attncli.text.shown import joined
from attncli.text.tokens import Tokens
from attncli.text.words import word_groups, word_tokens

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
    kept = None if record.vectors is None or not axes.apart else record.vectors.between(queries.taken, keys.taken)
    return replace(
        record,
        weights=pooled(record.weights, queries, keys),
        masks=any_of(record.compact_masks, queries, keys),
        tokens=queries.tokens,
        key_tokens=None if record.key_tokens is None else keys.tokens,
        vectors=kept,
        part=part or record.part,
        prediction=None if record.prediction is None else record.prediction.between(queries.groups),
    )


def pooled(weights: Floats, queries: Axis, keys: Axis) -> Floats:
    """Maps `[..., query, key]` between the units of two axes."""
    some = weights[..., queries.taken, :][..., keys.taken]
    if keys.starts is not None:
        some = np.add.reduceat(some, keys.starts, axis=-1)
    if queries.starts is not None and queries.shares is not None:
        some = np.add.reduceat(some * queries.shares[:, None].astype(some.dtype), queries.starts, axis=-2)
    return np.array(some)  # which a large map is not kept for


def any_of(masks: Bools, queries: Axis, keys: Axis) -> Bools:
    """Masks `[..., query, key]` between the units of two axes: where any token may attend to any."""
    some = masks[..., queries.taken, :][..., keys.taken]
    for axis, starts in ((-1, keys.starts), (-2, queries.starts)):
        if starts is not None:
            some = np.logical_or.reduceat(some, starts, axis=axis)
    return np.array(some)
