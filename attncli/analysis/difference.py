"""Compare two records: the weight that must move to turn the maps of one into those of the other.

They may be of one text under two models or two masks, or of two texts whose tokens are paired by position.
"""

from dataclasses import dataclass

import numpy as np

from attncli.analysis.patterns import counted_queries, row_shares, total_variation
from attncli.base.arrays import Bools, Brief, Doubles
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord


@dataclass(frozen=True, repr=False)
class Difference(Brief):
    """Two records of the same layers and heads, and of equal numbers of queries and keys.

    moved: `[layer, head]`, the weight that must move to turn one map into the other: the total variation distance
    (`attncli.analysis.patterns.total_variation`), mean over the counted queries of either record. These are real tokens
    with a visible key in the head's layer. 0 means equal maps, 1 means no weight in common, and NaN a head that the
    records do not have.
    """

    first: AttentionRecord
    second: AttentionRecord
    moved: Doubles

    def heads(self) -> list[tuple[int, int]]:
        """Return the heads as (layer, head), those that differ most first."""
        return sorted(self.first.each_head, key=lambda head: -self.of(*head))

    def of(self, layer: int, head: int) -> float:
        """Return the weight that moved in a head, given its numbers."""
        return float(self.moved[self.first.layers.index(layer), self.first.heads.index(head)])


def difference(first: AttentionRecord, second: AttentionRecord) -> Difference:
    """Compare the layers and heads that both records hold; tokens are paired by position.

    Norms are compared as shares of their rows. Raises RequestError if the records differ in their numbers of tokens, or
    have no head in common.
    """
    for what, one, other in (("tokens", first.tokens, second.tokens), ("keys", first.keys, second.keys)):
        if len(one) != len(other):
            raise RequestError(
                f"one has {len(one)} {what} and the other {len(other)}, and maps must have the same size: choose texts "
                "of equal length, or merge pieces into words with --words"
            )
    both = sorted(set(first.each_head) & set(second.each_head))
    if not both:
        raise RequestError(f"they have no head in common: one holds {first.choice}, the other {second.choice}")
    first, second = (row_shares(one.select(heads=both)) for one in (first, second))
    sinks = (first.sinks or second.sinks) and first.measure == "weight"
    variation = total_variation(first.weights, second.weights, sinks)
    moved = np.zeros(variation.shape[:2])
    for place, layer in enumerate(first.layers):
        queries = counted_in_either(first, second, layer)
        if queries.any():
            moved[place] = variation[place][:, queries].mean(axis=-1)
    moved[first.unchosen] = np.nan
    return Difference(first, second, moved)


def counted_in_either(first: AttentionRecord, second: AttentionRecord, layer: int) -> Bools:
    """Return the queries that are counted in a layer of either record, bool `[query]`."""
    return counted_queries(first, layer) | counted_queries(second, layer)


@dataclass(frozen=True)
class ChangedCell:
    """One weight in both records; layer and head are numbers, query and key positions of tokens."""

    layer: int
    head: int
    query: int
    key: int
    first: float
    second: float

    @property
    def change(self) -> float:
        """The weight in the second record minus the weight in the first."""
        return self.second - self.first


def largest_cells(found: Difference, count: int) -> list[ChangedCell]:
    """Return the cells that differ most, largest first, among counted queries; equal cells are omitted."""
    first, second = found.first.weights, found.second.weights
    change = np.abs(second - first)
    for of_layer, layer in zip(change, found.first.layers, strict=True):
        of_layer[:, ~counted_in_either(found.first, found.second, layer)] = 0
    order = np.argsort(-change, axis=None, kind="stable")[:count]
    return [
        ChangedCell(
            found.first.layers[layer],
            found.first.heads[head],
            int(query),
            int(key),
            float(first[layer, head, query, key]),
            float(second[layer, head, query, key]),
        )
        for layer, head, query, key in zip(*np.unravel_index(order, change.shape), strict=True)
        if change[layer, head, query, key] > 0
    ]
