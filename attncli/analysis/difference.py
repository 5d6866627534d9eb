"""Two records beside each other: how far apart the maps of each head are, and in which cells most.

They may be of one text under two models or two masks, or of two texts whose tokens stand beside each other in pairs.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attncli.analysis.patterns import counted_queries, total_variation
from attncli.analysis.shares import row_shares
from attncli.base.arrays import Bools, Doubles
from attncli.base.brief import Brief
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.selection import number_list


@dataclass(frozen=True)
class Cell:
    """One weight in both records; layer and head are numbers, query and key places of tokens."""

    layer: int
    head: int
    query: int
    key: int
    first: float
    second: float

    @property
    def change(self) -> float:
        """What the second has more than the first."""
        return self.second - self.first


@dataclass(frozen=True, repr=False)
class Difference(Brief):
    """Two records of the same layers and heads, and of as many queries and keys.

    moved: `[layer, head]`, in their order: how much weight must move to make one map the other, the total variation
    distance (`attncli.analysis.patterns.total_variation`), mean over the queries that count in either: real tokens
    that may attend to something in the head's layer. 0 is no difference; 1 is that no weight is where it was.
    """

    first: AttentionRecord
    second: AttentionRecord
    moved: Doubles

    def heads(self) -> list[tuple[int, int]]:
        """The heads as (layer, head), those that differ most first."""
        order = np.argsort(-self.moved, axis=None, kind="stable")
        places = zip(*np.unravel_index(order, self.moved.shape), strict=True)
        return [(self.first.layers[layer], self.first.heads[head]) for layer, head in places]

    def of(self, layer: int, head: int) -> float:
        """How much weight moved in one head, by its numbers."""
        return float(self.moved[self.first.layers.index(layer), self.first.heads.index(head)])

    def largest(self, count: int) -> list[Cell]:
        """The cells that differ most, largest first, of the queries that count; those that are equal are left out."""
        first, second = self.first.weights, self.second.weights
        change = np.abs(second - first)
        for of_layer, layer in zip(change, self.first.layers, strict=True):
            of_layer[:, ~counted_in_either(self.first, self.second, layer)] = 0
        order = np.argsort(-change, axis=None, kind="stable")[:count]
        return [
            Cell(
                self.first.layers[layer],
                self.first.heads[head],
                int(query),
                int(key),
                float(first[layer, head, query, key]),
                float(second[layer, head, query, key]),
            )
            for layer, head, query, key in zip(*np.unravel_index(order, change.shape), strict=True)
            if change[layer, head, query, key] > 0
        ]


def difference(first: AttentionRecord, second: AttentionRecord) -> Difference:
    """What is different, in the layers and heads that both records hold; tokens are paired by their places.

    Norms are compared as shares of their rows.

    Raises RequestError when the records have not the same number of tokens, or no layer or head in common.
    """
    for what, one, other in (("tokens", first.tokens, second.tokens), ("keys", first.keys, second.keys)):
        if len(one) != len(other):
            raise RequestError(
                f"one has {len(one)} {what} and the other {len(other)}: maps of one size are compared; choose texts of "
                "equal length, or put pieces together to words with --words"
            )
    layers = common("layer", first.layers, second.layers)
    heads = common("head", first.heads, second.heads)
    first, second = (row_shares(one.select(layers, heads)) for one in (first, second))
    sinks = (first.sinks or second.sinks) and first.measure == "weight"
    variation = total_variation(first.weights, second.weights, sinks)
    moved = np.zeros(variation.shape[:2])
    for place, layer in enumerate(layers):
        queries = counted_in_either(first, second, layer)
        if queries.any():
            moved[place] = variation[place][:, queries].mean(axis=-1)
    return Difference(first, second, moved)


def common(what: str, first: list[int], second: list[int]) -> list[int]:
    """The layers or heads that both hold, in order. Raises RequestError when there is none."""
    both = sorted(set(first) & set(second))
    if not both:
        raise RequestError(
            f"they have no {what} in common: one holds {number_list(first)}, the other {number_list(second)}"
        )
    return both


def counted_in_either(first: AttentionRecord, second: AttentionRecord, layer: int) -> Bools:
    """bool `[query]`: the queries that count in a layer of one or the other."""
    either: Bools = counted_queries(first, layer) | counted_queries(second, layer)
    return either


def document(found: Difference, top: int) -> dict[str, Any]:
    """What `diff --json` prints: the two, every head, and the `top` cells that differ most, with the first's tokens."""
    return {
        "first": side(found.first),
        "second": side(found.second),
        "heads": [{"layer": layer, "head": head, "moved": found.of(layer, head)} for layer, head in found.heads()],
        "cells": [
            {
                **asdict(cell),
                "query_token": found.first.tokens.text[cell.query],
                "key_token": found.first.keys.text[cell.key],
                "change": cell.change,
            }
            for cell in found.largest(top)
        ],
    }


def side(record: AttentionRecord) -> dict[str, Any]:
    """What one of the two is of."""
    keys = {} if record.key_tokens is None else {"key_tokens": record.key_tokens.text}
    return {
        "model": record.model.document(),
        "measure": record.measure,
        "mask": record.mask_name,
        "tokens": record.tokens.text,
        **keys,
    }
