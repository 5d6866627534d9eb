"""Heads by their strongest weight from one token to another: the arithmetic of `find`, and of the order of heads by
content, in which heads are shown where there is no room for all.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from attncli.analysis.patterns import counted_queries
from attncli.analysis.sinks import sinks
from attncli.analysis.telling import Edge, Usual, WordPairs, others_give
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.selection import is_number, places_of, select_token
from attncli.text.tokens import Tokens

ANY = "*"  # stands for any token
SINK = 0.3  # the mean weight from the other queries that makes a key a sink


@dataclass(frozen=True)
class Rank:
    """A head with its means over the texts that have both tokens.

    weight: of its strongest weight between them. usual: of the usual weight there. sinks: the number of texts in which
    that weight goes to a sink. edges: these weights, one a text.
    """

    layer: int
    head: int
    weight: float
    usual: float
    sinks: int
    edges: list[Edge]

    @property
    def above(self) -> float:
        """The distance of the weight above the usual one."""
        return self.weight - self.usual


def places(name: str, tokens: Tokens) -> list[int]:
    """Return the positions of a token that `select_token` would take for this name, and of all that read so.

    ANY stands for all but [PAD]. A number, and a name with a number ("it#2"), is one token.
    """
    if name == ANY:
        return [place for place, padding in enumerate(tokens.padding) if not padding]
    try:
        one = select_token(name, tokens)
    except RequestError:
        return []
    every = places_of(name, tokens)
    return every if one in every and not is_number(name) else [one]


def strongest_edges(
    record: AttentionRecord, over: Usual, query: str = ANY, key: str = ANY, content: bool = False
) -> list[tuple[Edge, bool]]:
    """Return, for each head, the edge with the largest weight from `query` to `key`, and whether it leads to a sink.

    content: take edges between different words only, and the one farthest above its usual weight. A layer whose mask
    allows no such edge has none. The usual weight of an edge between words is that of `WordPairs`; of another edge,
    what the other tokens give the key. A sink is one of `sinks`, or a key that the other tokens give SINK or more on
    average. Where the query is ANY, a token that can see one key only is no query: its weight is always 1.

    Both names are in the text.
    """
    queries, keys = places(query, record.tokens), places(key, record.keys)
    chosen = np.zeros(record.masks.shape[1:], dtype=bool)
    chosen[np.ix_(queries, keys)] = True
    known_sinks = sinks(record)
    edges = []
    pairs = WordPairs(record)
    for place, layer in enumerate(record.layers):
        words = pairs.allowed(place)
        allowed = chosen & record.masks[place] & (words if content else True)
        if not allowed.any():
            continue
        choosing = allowed & (record.masks[place].sum(axis=1) > 1)[:, None]
        if query == ANY and choosing.any():
            allowed = choosing
        weights = record.weights[place]
        to_key = others_give(weights, np.broadcast_to(counted_queries(record, layer)[:, None], chosen.shape))
        usual = np.where(words, pairs.usual(place, over), to_key)
        ranked = np.where(allowed, weights - usual if content else weights, -np.inf)
        for column, head in enumerate(record.heads):
            row, best = np.unravel_index(int(ranked[column].argmax()), allowed.shape)
            at = column, row, best
            edge = Edge(layer, head, int(row), int(best), float(weights[at]), float(usual[at]))
            edges.append((edge, bool(known_sinks[best] or to_key[at] >= SINK)))
    return edges


def ranking(texts: Iterable[Sequence[tuple[Edge, bool]]], content: bool = False) -> list[Rank]:
    """Order heads by the mean of their weights over texts or, with `content`, by its distance above the usual one."""
    by_head: defaultdict[tuple[int, int], list[tuple[Edge, bool]]] = defaultdict(list)
    for edges in texts:
        for edge, sink in edges:
            by_head[edge.layer, edge.head].append((edge, sink))
    ranks = []
    for (layer, head), found in by_head.items():
        those = [edge for edge, _ in found]
        weight, usual = (float(np.mean([getattr(edge, name) for edge in those])) for name in ("weight", "usual"))
        ranks.append(Rank(layer, head, weight, usual, sum(sink for _, sink in found), those))
    return sorted(ranks, key=lambda rank: rank.above if content else rank.weight, reverse=True)


def by_content(record: AttentionRecord) -> list[tuple[int, int]]:
    """Order all heads of a record, as (layer, head), by the edge between words farthest above its usual weight."""
    ranks = ranking([strongest_edges(record, Usual.of_text(record), content=True)], content=True)
    first = [(rank.layer, rank.head) for rank in ranks]
    return list(dict.fromkeys([*first, *((layer, head) for layer in record.layers for head in record.heads)]))
