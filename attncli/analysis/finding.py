"""Which heads look from one token to another: the strongest weight of each between them, in one text or in many."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analysis.patterns import counted_queries
from attncli.analysis.shares import row_shares
from attncli.analysis.sinks import sinks
from attncli.analysis.telling import Edge, Usual, WordPairs, others_give
from attncli.analysis.words import merge_words
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.corpus.statistics import Statistics
from attncli.record import AttentionRecord
from attncli.record.selection import Selection, is_number, places_of, select, select_token
from attncli.text.tokens import Tokens

ANY = "*"  # stands for any token
SINK = 0.3  # a key that the other queries give so much, on average, is a sink


@dataclass(frozen=True)
class Wanted:
    """Between which tokens: names as `select_token` has them, or ANY. content: only between two different words."""

    query: str = ANY
    key: str = ANY
    content: bool = False


@dataclass(frozen=True)
class Rank:
    """One head: the mean, over the texts that have both tokens, of its strongest weight between them.

    usual: the mean of what is usual there; sinks: in how many texts that weight goes to a sink; edges: these weights.
    """

    layer: int
    head: int
    weight: float
    usual: float
    sinks: int
    edges: list[Edge]

    @classmethod
    def of(cls, edges: Sequence[Edge], sinks: int) -> "Rank":
        """Of one head's edges, one a text."""
        weight, usual = (float(np.mean([getattr(edge, name) for edge in edges])) for name in ("weight", "usual"))
        return cls(edges[0].layer, edges[0].head, weight, usual, sinks, list(edges))

    @property
    def above(self) -> float:
        """How far the weight is above what is usual."""
        return self.weight - self.usual


def in_tokens_or_words(record: AttentionRecord, wanted: Wanted) -> AttentionRecord | None:
    """The record, or the record between words where a name is that of a word in several pieces; None where a name is
    neither a token nor a word of the text.
    """
    sides = ((wanted.query, "tokens"), (wanted.key, "keys"))

    def has_both(one: AttentionRecord) -> bool:
        return all(places(name, getattr(one, side)) for name, side in sides)

    if has_both(record):
        return record
    words = merge_words(record)
    return words if has_both(words) else None


def places(name: str, tokens: Tokens) -> list[int]:
    """Where a token stands that `select_token` would take for this name, and all that read so; of ANY all but [PAD].

    None where there is none. A number, and a name with a number ("it#2"), is one token.
    """
    if name == ANY:
        return [place for place, padding in enumerate(tokens.padding) if not padding]
    try:
        one = select_token(name, tokens)
    except RequestError:
        return []
    every = places_of(name, tokens)
    return every if one in every and not is_number(name) else [one]


def strongest_edges(record: AttentionRecord, wanted: Wanted, over: Usual) -> list[tuple[Edge, bool]]:
    """Of every head the edge between the tokens `wanted` with the largest weight, or, between words (`content`), the
    one farthest above what is usual; and whether it leads to a sink. None in a layer whose mask allows no such edge.

    Of an edge between words what is usual is that of `WordPairs`; of another, what the other tokens give that key.
    A sink is one of `sinks`, or a key that the other tokens give SINK or more on average. Where the query is ANY, a
    token that may look at one key only is no query: its weight is 1 whatever the head does.

    Both are in the text.
    """
    queries, keys = places(wanted.query, record.tokens), places(wanted.key, record.keys)
    chosen = np.zeros(record.masks.shape[1:], dtype=bool)
    chosen[np.ix_(queries, keys)] = True
    known_sinks = sinks(record)
    edges = []
    pairs = WordPairs(record)
    for place, layer in enumerate(record.layers):
        words = pairs.allowed(place)
        allowed = chosen & record.masks[place] & (words if wanted.content else True)
        if not allowed.any():
            continue
        choosing = allowed & (record.masks[place].sum(axis=1) > 1)[:, None]
        if wanted.query == ANY and choosing.any():
            allowed = choosing
        weights = record.weights[place]
        to_key = others_give(weights, np.broadcast_to(counted_queries(record, layer)[:, None], chosen.shape))
        usual = np.where(words, pairs.usual(place, over), to_key)
        ranked = np.where(allowed, weights - usual if wanted.content else weights, -np.inf)
        for column, head in enumerate(record.heads):
            query, key = np.unravel_index(int(ranked[column].argmax()), allowed.shape)
            at = column, query, key
            edge = Edge(layer, head, int(query), int(key), float(weights[at]), float(usual[at]))
            edges.append((edge, bool(known_sinks[key] or to_key[at] >= SINK)))
    return edges


def ranking(texts: Iterable[Sequence[tuple[Edge, bool]]], content: bool = False) -> list[Rank]:
    """Heads by the mean of their weights over texts, or, of `content`, by how far that is above what is usual."""
    by_head: defaultdict[tuple[int, int], list[tuple[Edge, bool]]] = defaultdict(list)
    for edges in texts:
        for edge, sink in edges:
            by_head[edge.layer, edge.head].append((edge, sink))
    ranks = [Rank.of([edge for edge, _ in found], sum(sink for _, sink in found)) for found in by_head.values()]
    return sorted(ranks, key=lambda rank: rank.above if content else rank.weight, reverse=True)


def by_content(record: AttentionRecord) -> list[tuple[int, int]]:
    """All heads of a record as (layer, head), those with the edge between words farthest above what is usual first."""
    ranks = ranking([strongest_edges(record, Wanted(content=True), Usual.of_text(record))], content=True)
    first = [(rank.layer, rank.head) for rank in ranks]
    return list(dict.fromkeys([*first, *((layer, head) for layer in record.layers for head in record.heads)]))


@dataclass(frozen=True)
class Finding:
    """What was found: `wanted` in so many `texts` of all (`of`), the heads from the first down.

    some: the record of the last text that has them.
    """

    wanted: Wanted
    texts: int
    of: int
    ranks: list[Rank]
    some: AttentionRecord

    def document(self) -> dict[str, Any]:
        """What `find --json` prints."""
        return {
            "model": self.some.model.document(),
            "from": self.wanted.query,
            "to": self.wanted.key,
            "by": "content" if self.wanted.content else "weight",
            "mask": self.some.mask_name,
            "measure": self.some.measure,
            "texts": self.texts,
            "of": self.of,
            **({"tokens": self.some.tokens.text} if self.of == 1 else {}),
            "heads": [self.entry(rank) for rank in self.ranks],
        }

    def entry(self, rank: Rank) -> dict[str, Any]:
        """A head, best first; of one text with the places of its edge."""
        edges: dict[str, Any] = {}
        if self.of == 1:
            [edge] = rank.edges
            sides = (("query", edge.query, self.some.tokens), ("key", edge.key, self.some.keys))
            edges = {
                name: {"index": place, "token": tokens.text[place], "shown": tokens.shown[place]}
                for name, place, tokens in sides
            }
        return {
            "layer": rank.layer,
            "head": rank.head,
            "weight": rank.weight,
            "usual": rank.usual,
            "texts": len(rank.edges),
            "sinks": rank.sinks,
            **edges,
        }


def find(records: Iterable[AttentionRecord], wanted: Wanted, usual: Callable[[bool], Usual | None]) -> Finding:
    """The heads of a model by what they give from one token to another, over texts.

    usual: gives what is usual over other texts, between tokens or (True) between words; None where there are none.

    Raises RequestError when no text has both tokens.
    """
    over: dict[bool, Usual | None] = {}
    found: list[list[tuple[Edge, bool]]] = []
    seen, last = 0, None
    for record in map(row_shares, records):
        seen += 1
        one = in_tokens_or_words(record, wanted)
        if one is None:
            last = last or record
            continue
        words = one is not record
        if words not in over:
            over[words] = usual(words)
        found.append(strongest_edges(one, wanted, Usual.with_text(one, over[words])))
        last = one
    if last is None:
        raise RequestError("there is no text to look in")
    if not any(found):
        raise RequestError(nowhere(last, wanted, seen))
    return Finding(wanted, len(found), seen, ranking(found, wanted.content), last)


def nowhere(record: AttentionRecord, wanted: Wanted, texts: int) -> str:
    """Why no head was found."""
    query, key = quoted(wanted.query), quoted(wanted.key)
    if texts > 1:
        return f"in none of {texts} texts does the mask allow any token {query} to look at a {key}"
    for name, tokens in ((wanted.query, record.tokens), (wanted.key, record.keys)):
        if not places(name, tokens):
            select_token(name, tokens)  # says which tokens are like it
    return f"the mask {record.mask_name} does not allow {query} to look at {key} in this text"


def by_figure(statistics: Statistics, name: str, layers: Selection, heads: Selection) -> dict[str, Any]:
    """What `find --json` prints of the heads by a figure of statistics, those with most of it first.

    Raises RequestError for layers or heads that the model has not.
    """
    model = statistics.model
    chosen = select(layers, model.layers, "layer"), select(heads, model.heads, "head")
    found = [one for one in statistics.heads if one.layer in chosen[0] and one.head in chosen[1]]
    return {
        "model": model.document(),
        "by": name,
        "mask": statistics.mask,
        "measure": statistics.measure,
        "texts": statistics.texts,
        "of": statistics.texts,
        "heads": [
            {
                "layer": one.layer,
                "head": one.head,
                "label": one.label,
                "value": one.figures[name],
                "spread": one.spread[name],
            }
            for one in sorted(found, key=lambda one: -one.figures[name])
        ],
    }
