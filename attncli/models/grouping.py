"""What is kept of a walk where not every token of a text is to stand along the axes of its maps: maps between words, or
stretches, or some of the tokens (`attncli.record.grouping`), made of some queries after the other.

Neither a map of all tokens nor its mask is ever there.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Ints
from attncli.models.attending import attend_heads, places_of
from attncli.models.norms import transformed_lengths
from attncli.models.rows import LayerMask, Rows
from attncli.models.walk import Attend, Heads
from attncli.record.grouping import Axes, Axis

BLOCK = 2**22  # weights that are there at a time, and are made into fewer then


class KeepGrouped:
    """Keeps the maps of some heads of some layers between the units of each text's axes.

    kept: of each text, by its number in the batch, `[layer, head, unit, unit]`. norms: of weight times the length of
    the transformed value (`attncli.models.norms`).
    """

    def __init__(
        self,
        rows: Rows,
        axes: Sequence[Axes],
        layers: Sequence[int],
        heads: Sequence[int],
        like: Tensor,
        norms: bool = False,
        inside: Attend = attend_heads,
    ) -> None:
        self.axes = axes
        self.layers = list(layers)
        self.heads = list(heads)
        self.norms = norms
        self.like = like
        self.inside = inside
        exact = like.new_empty(0, dtype=torch.promote_types(like.dtype, torch.float32))  # sums of halves lose too much
        self.kept = [exact.new_zeros(len(layers), len(heads), len(one.queries), len(one.keys)) for one in axes]

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        ours, where = places_of(heads, self.heads)
        if heads.layer not in self.layers or not ours:
            return self.inside(heads, weights)
        chosen = heads.only(ours)
        lengths = transformed_lengths(heads.attention, chosen.value, chosen.numbers) if self.norms else None
        if weights is not None:  # somebody else looks at all of them
            output = self.inside(heads, weights)
            for queries in blocks(chosen):
                self.add(chosen.some_queries(queries), where, weights[:, ours, queries], lengths)
            return output
        output = heads.value.new_empty(*heads.query.shape[:3], heads.value.shape[-1])
        if others := [place for place in range(len(heads.numbers)) if place not in ours]:
            output[:, others] = self.inside(heads.only(others))
        for queries in blocks(chosen):
            some = chosen.some_queries(queries)
            room = self.like.new_empty(*some.query.shape[:3], some.key.shape[2])
            output[:, ours, queries] = self.inside(some, room)
            self.add(some, where, room, lengths)
        return output

    def add(self, heads: Heads, where: Sequence[int], weights: Tensor, lengths: Tensor | None) -> None:
        """Some queries' weights `[text, head, query, key]`, of which a window leaves some keys only."""
        if heads.window is not None:
            seen = heads.window.seen(heads.queries, heads.keys)
            weights, heads = weights[..., seen], heads.some_keys(seen)
            lengths = None if lengths is None else lengths[..., seen]
        if lengths is not None:
            weights = weights * lengths[..., None, :]
        weights = weights.to(self.kept[0].dtype)
        layer = self.layers.index(heads.layer)
        for text, of_text in zip(heads.run.texts[heads.texts], weights, strict=True):
            units, sums = between_units(self.axes[text], heads.queries, heads.keys, of_text)
            self.kept[text][layer, where, units] += sums


def blocks(heads: Heads) -> Iterator[slice]:
    """Queries, as many together as have BLOCK weights."""
    texts, count, queries, _ = heads.query.shape
    return some_of(queries, texts * count * heads.key.shape[2])


def some_of(queries: int, weights: int) -> Iterator[slice]:
    """So many queries of so many weights each, as many together as have BLOCK of them, at least one."""
    together = max(1, BLOCK // weights)
    for start in range(0, queries, together):
        yield slice(start, min(start + together, queries))


def between_units(axes: Axes, queries: slice, keys: slice, rows: Tensor) -> tuple[slice, Tensor]:
    """What the rows `[..., query, key]` of some queries to some keys of a text, neighbours each, add to the map between
    its units: of these units along the queries `[..., unit, unit]`. What has rows in two blocks is added up of both.
    """
    sums = to_units(axes.keys, keys, rows)
    taken, units = within(axes.queries, queries)
    first, last = (int(units[0]), int(units[-1]) + 1) if len(units) else (0, 0)
    sums = sums[..., counted_from(queries.start, axes.queries.places[taken], rows.device), :]
    if axes.queries.shares is not None:
        shares = np.zeros((last - first, len(units)))
        shares[units - first, np.arange(len(units))] = axes.queries.shares[taken]
        sums = torch.from_numpy(shares).to(sums.device, sums.dtype) @ sums
    return slice(first, last), sums


def to_units(axis: Axis, keys: slice, rows: Tensor) -> Tensor:
    """Of rows `[..., query, key]` to some keys, neighbours, those to all units of an axis, to which they add up."""
    taken, units = within(axis, keys)
    some = rows[..., counted_from(keys.start, axis.places[taken], rows.device)]
    sums = rows.new_zeros(*rows.shape[:-1], len(axis))
    return sums.index_add_(-1, torch.from_numpy(units).to(rows.device), some)


def counted_from(first: int, places: Ints, device: torch.device) -> Tensor | slice:
    """These places among those from the first on; a slice, which copies nothing, where they are neighbours."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]) - first, int(places[-1]) + 1 - first)
    return torch.from_numpy(places - first).to(device)


def within(axis: Axis, tokens: slice) -> tuple[slice, Ints]:
    """Of the tokens that are taken those among some neighbours, and the unit of each."""
    start, stop = np.searchsorted(axis.places, [tokens.start, tokens.stop])
    return slice(start, stop), axis.units[start:stop]


def grouped_masks(masks: Sequence[LayerMask | None], axes: Axes, place: int, device: torch.device) -> Tensor:
    """The masks of layers between the units of a text, bool `[layer, unit, unit]`: True where any token may attend to
    any; a view of one where layers share theirs.

    place: of the text among those that the masks are of.
    """
    made = {id(mask): one_mask(mask, axes, place, device) for mask in masks}
    if len(made) == 1:
        return made[id(masks[0])].expand(len(masks), -1, -1)
    return torch.stack([made[id(mask)] for mask in masks])


def one_mask(mask: LayerMask | None, axes: Axes, place: int, device: torch.device) -> Tensor:
    if mask is None:
        return torch.ones(len(axes.queries), len(axes.keys), dtype=torch.bool, device=device)
    counts = torch.zeros(len(axes.queries), len(axes.keys), device=device)
    for queries, keys, rows in mask_blocks(mask.some_texts(slice(place, place + 1)), axes, device):
        units, sums = between_units(axes, queries, keys, rows)
        counts[units] += sums
    return counts > 0


def mask_blocks(mask: LayerMask, axes: Axes, device: torch.device) -> Iterable[tuple[slice, slice, Tensor]]:
    """Some queries of a text after the other, the keys that any of them may see, and 1 where it may, else 0."""
    every = slice(0, axes.keys.text)
    for queries in some_of(axes.queries.text, axes.keys.text):
        keys = every if mask.window is None else mask.window.seen(queries, every)
        allowed = mask.of(queries, keys, device)
        assert allowed is not None  # a mask that hides nothing is None
        yield queries, keys, allowed[0, 0].expand(queries.stop - queries.start, -1).float()
