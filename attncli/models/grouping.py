"""Maps between words, stretches or some of the tokens (`attncli.record.grouping`), made of blocks of queries.

A map of all tokens does not exist at any time. Importing this does not import torch.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from attncli.base.arrays import Ints
from attncli.models.arrays import Array, add_columns, like, stack, widened
from attncli.models.block import Block, Tap, chosen
from attncli.models.taps import transformed_lengths
from attncli.record.grouping import Axes, Axis

BLOCK = 2**22  # weights that exist at a time, before they are merged into fewer


class GroupedMaps(Tap):
    """Keeps the maps of some heads of some layers between the units of each text's axes.

    kept: for each text, by its number in the batch, `[layer, head, unit, unit]`, from `zeros(shape)`. norms: weights
    times the lengths of the transformed values instead of weights.
    """

    most_weights = BLOCK

    def __init__(
        self,
        axes: Sequence[Axes],
        layers: Sequence[int],
        heads: Sequence[int],
        zeros: Callable[[Sequence[int]], Array],
        norms: bool = False,
    ) -> None:
        self.axes = axes
        self.layers = list(layers)
        self.heads = list(heads)
        self.norms = norms
        self.needs_values = norms
        self.kept = [widened(zeros((len(layers), len(heads), len(one.queries), len(one.keys)))) for one in axes]
        self.lengths: dict[int, Array] = {}  # by head, [text, token], of the block that is being computed

    def places(self, block: Block) -> Sequence[int]:
        return chosen(block, self.heads)[0] if block.layer in self.layers else ()

    def begin(self, block: Block) -> Block:
        if self.norms and (ours := self.places(block)):
            lengths = transformed_lengths(block.only(ours))
            self.lengths = {block.numbers[place]: lengths[:, number] for number, place in enumerate(ours)}
        return block

    def weights(self, part: Block, weights: Array) -> None:
        ours, where = chosen(part, self.heads)
        if part.layer not in self.layers or not ours:
            return
        weights = weights[:, ours]
        if self.norms:
            heads = [self.lengths[part.numbers[place]][part.texts, part.keys] for place in ours]
            weights = weights * stack(heads, axis=1)[..., None, :]
        layer = self.layers.index(part.layer)
        for text, of_text in zip(part.text_numbers, widened(weights), strict=True):
            units, sums = between_units(self.axes[text], part.queries, part.keys, of_text)
            self.kept[text][layer, where, units] += sums


def some_of(queries: int, weights: int) -> Iterator[slice]:
    """So many queries of so many weights each, as many together as have BLOCK of them, at least one."""
    together = max(1, BLOCK // weights)
    for start in range(0, queries, together):
        yield slice(start, min(start + together, queries))


def between_units(axes: Axes, queries: slice, keys: slice, rows: Array) -> tuple[slice, Array]:
    """Return what some rows `[..., query, key]` of a text add to the map between its units.

    queries, keys: the neighbouring tokens that the rows lead from and to. Returns the units that the queries belong to,
    and their rows `[..., unit, unit]`. A unit whose rows are in two blocks is added up from both.
    """
    sums = to_units(axes.keys, keys, rows)
    taken, units = within(axes.queries, queries)
    first, last = (int(units[0]), int(units[-1]) + 1) if len(units) else (0, 0)
    sums = sums[..., counted_from(queries.start, axes.queries.places[taken]), :]
    if axes.queries.shares is not None:
        shares = np.zeros((last - first, len(units)))
        shares[units - first, np.arange(len(units))] = axes.queries.shares[taken]
        sums = like(sums, shares) @ sums
    return slice(first, last), sums


def to_units(axis: Axis, keys: slice, rows: Array) -> Array:
    """Add up rows `[..., query, key]` to neighbouring keys to those to all units of an axis, `[..., query, unit]`."""
    taken, units = within(axis, keys)
    return add_columns(rows[..., counted_from(keys.start, axis.places[taken])], len(axis), units)


def counted_from(first: int, places: Ints) -> list[int] | slice:
    """Count places from `first` on; neighbours become a slice, which copies nothing."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]) - first, int(places[-1]) + 1 - first)
    return [int(place) - first for place in places]


def within(axis: Axis, tokens: slice) -> tuple[slice, Ints]:
    """Of the tokens that are taken those among some neighbours, and the unit of each."""
    start, stop = np.searchsorted(axis.places, [tokens.start, tokens.stop])
    return slice(start, stop), axis.units[start:stop]
