"""Edges between tokens: which weights stand out, and which keys are sinks.

A weight alone does not say that it stands out. A head that always looks at the previous token has large weights
everywhere, and so does a head that looks at one token from everywhere. So each weight is compared with its usual
weight.

A sink takes weight because a row has to sum to 1, not because of its content. [CLS] and [SEP] are sinks (Clark et al.
2019, section 3.2). In a decoder the first token is one, whatever it is (Xiao et al. 2023, "Efficient Streaming Language
Models with Attention Sinks"): every query sees it. Sinks do not count as words.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.analysis.patterns import counted_queries, summarise
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.errors import RequestError
from attncli.record import AttentionRecord
from attncli.record.parts import UsualWeights
from attncli.record.selection import is_number, places_of, select, select_heads, select_token
from attncli.text.tokens import Tokens
from attncli.text.windows import NO_WORD, word_places


def sinks(record: AttentionRecord) -> Bools:
    """Return which keys are sinks, bool `[key]`: the special tokens, and the first token where `first_is_sink`."""
    found: Bools = np.array(record.keys.special)
    found[record.tokens.first if record.key_tokens is None else 0] |= first_is_sink(record)
    return found


def first_is_sink(record: AttentionRecord) -> bool:
    """Return whether the first token is one of the text's own, and the record's masks only look back.

    They do where no token sees a later one in any layer, and some token sees an earlier one. [PAD] does not count.
    """
    tokens, part = record.tokens, record.part
    if record.key_tokens is not None or tokens.special[tokens.first]:
        return False
    if part is not None and part.chosen and select(part.chosen, part.tokens, "token")[0] > tokens.first:
        return False  # the record begins later than its text does
    real = np.flatnonzero(~np.array(tokens.padding))
    masks = record.compact_masks[..., real[:, None], real]
    return bool(np.tril(masks, -1).any() and not np.triu(masks, 1).any())


# Distances, up to these, that are taken together: 1, 2, 3, 4, 5 to 8, 9 to 16, more; forwards and backwards apart.
BORDERS = (1, 2, 3, 4, 8, 16)
BINS = 2 * len(BORDERS) + 3  # with 0 in the middle, where nothing is counted
FEW = 5  # pairs of words: of fewer at a distance no mean is taken, but of all distances
STRONG = 0.3  # an edge is strong when it is so far above what is usual
CLEAR = 0.5  # a pattern is clear when it takes so much of the weight
PATTERNS = ("self", "previous", "next")  # those that are no sinks
_ALL = slice(None)


@dataclass(frozen=True)
class Edge:
    """A weight from one token to another, by their places, and its usual weight."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    usual: float

    @property
    def above(self) -> float:
        """The distance above the usual weight."""
        return self.weight - self.usual


class TextSums(NamedTuple):
    """The sums of one text.

    tokens: its tokens without [PAD], by their places in the text: (text, id, segment).
    sums: float64 `[layer, head, bin]`, of weights between two different words that the mask allows (`WordPairs`).
    counts: float64 `[layer, bin]`, how many these are.
    """

    tokens: dict[int, tuple[str, int, int]]
    sums: Doubles
    counts: Doubles


@dataclass(frozen=True)
class Usual:
    """The weights that heads usually give between words at each distance, over texts.

    each: the sums of each text, or of several together. count: the number of texts, if not one for each.
    """

    each: Sequence[TextSums]
    count: int | None = None

    @classmethod
    def of(cls, records: Iterable[AttentionRecord]) -> "Usual | None":
        """Return them over records of the same layers and heads; None where there is no record."""
        each = [text_sums(record) for record in records]
        return cls(each) if each else None

    @classmethod
    def of_text(cls, record: AttentionRecord) -> "Usual":
        """Return them over a text, and the other texts whose sums its record holds."""
        here, kept = text_sums(record), record.usual
        if kept is None or kept.sums.shape[-1] != BINS:
            return cls([here])
        return cls([TextSums({}, kept.sums, kept.counts), here], kept.texts + 1)

    @classmethod
    def with_text(cls, record: AttentionRecord, others: "Usual | None") -> "Usual":
        """Return them over a text and others, where there are any."""
        return cls.of_text(with_usual(record, others))

    @cached_property
    def sums(self) -> Doubles:
        """The sums over all texts."""
        return np.sum([one.sums for one in self.each], axis=0)

    @cached_property
    def counts(self) -> Doubles:
        """The counts over all texts."""
        return np.sum([one.counts for one in self.each], axis=0)

    @property
    def texts(self) -> int:
        return len(self.each) if self.count is None else self.count

    def select(self, rows: Sequence[int], columns: Sequence[int]) -> "Usual":
        """Return those of some layers and heads, by their places."""
        each = [TextSums(one.tokens, one.sums[np.ix_(rows, columns)], one.counts[rows]) for one in self.each]
        return Usual(each, self.count)


def with_usual(record: AttentionRecord, others: Usual | None) -> AttentionRecord:
    """Return a record that holds the usual weights of its heads over other texts, without its own text."""
    own = tokens_of_record(record)
    usual = usual_over_others(own, len(own) if record.part is None else record.part.tokens, others)
    return record if usual is None else replace(record, usual=usual)


def usual_over_others(own: dict[int, tuple[str, int, int]], length: int, others: Usual | None) -> UsualWeights | None:
    """Return the usual weights over other texts, without the text of `length` tokens that these tokens are of."""
    each = [
        one
        for one in (others.each if others else ())
        if len(one.tokens) != length or not own.items() <= one.tokens.items()  # else it is this text, or its whole
    ]
    if not each:
        return None
    over = Usual(each)
    return UsualWeights(over.sums, over.counts, over.texts)


def text_sums(record: AttentionRecord) -> TextSums:
    """Return the sums of one record."""
    pairs, heads = WordPairs.of(record), len(record.heads)
    each = [LayerSums(heads, len(record.keys)) for _ in record.layers]
    for one, maps, mask in zip(each, record.weights, record.masks, strict=True):
        one.add(maps, pairs.bins(), pairs.different() & mask)
    sums, counts = np.stack([one.sums for one in each]), np.stack([one.counts for one in each])
    return TextSums(tokens_of_record(record), sums, counts)


def tokens_of_record(record: AttentionRecord) -> dict[int, tuple[str, int, int]]:
    """Return the tokens of a record by their places in the text, as `placed_tokens` does."""
    part = record.part
    places = select(part.chosen, part.tokens, "token") if part is not None and part.chosen else None
    return placed_tokens(record.tokens, places)


def placed_tokens(tokens: Tokens, places: Sequence[int] | None = None) -> dict[int, tuple[str, int, int]]:
    """Return tokens without [PAD] by their places, which are the first ones by default: (text, id, segment)."""
    entries = zip(places or range(len(tokens)), tokens.text, tokens.ids, tokens.segments, tokens.padding, strict=False)
    return {place: (text, number, segment) for place, text, number, segment, padding in entries if not padding}


class WordPairs:
    """The pairs of tokens that count: two different words, neither a sink nor punctuation.

    tokens: of the queries. keys: of the keys, if they are of another text. first_is_sink: the first token is a sink.
    Methods take some queries and keys, by default all.
    """

    def __init__(self, tokens: Tokens, keys: Tokens | None, first_is_sink: bool) -> None:
        self.crosses = keys is not None
        self.words = word_places(tokens), word_places(tokens if keys is None else keys)
        if first_is_sink:
            for words in self.words:
                words[tokens.first] = NO_WORD

    @classmethod
    def of(cls, record: AttentionRecord) -> "WordPairs":
        return cls(record.tokens, record.key_tokens, first_is_sink(record))

    def bins(self, queries: slice = _ALL, keys: slice = _ALL) -> npt.NDArray[np.int8]:
        """Return the bin of each distance, `[query, key]`, below BINS. Between two texts all are in one bin."""
        rows, columns = (np.arange(len(words))[some] for words, some in zip(self.words, (queries, keys), strict=True))
        if self.crosses:
            return np.zeros((len(rows), len(columns)), dtype=np.int8)
        distance = columns - rows[:, None]
        size = np.searchsorted(BORDERS, np.abs(distance)) + 1
        return np.where(distance == 0, BINS // 2, BINS // 2 + np.sign(distance) * size).astype(np.int8)

    def different(self, queries: slice = _ALL, keys: slice = _ALL) -> Bools:
        """Return the pairs that count if the mask allows them, bool `[query, key]`."""
        rows, columns = self.words[0][queries, None], self.words[1][keys]
        both: Bools = (rows != NO_WORD) & (columns != NO_WORD)
        return both if self.crosses else both & (rows != columns)


class LayerSums:
    """The weights of a layer's heads between words, summed over rows.

    sums `[head, bin]`, counts `[bin]`: as in `TextSums`. given `[head, key]`: the sum that each key gets. givers
    `[key]`: the number of queries that give it. All are float64.
    """

    def __init__(self, heads: int, keys: int) -> None:
        self.sums, self.counts = np.zeros((heads, BINS)), np.zeros(BINS)
        self.given, self.givers = np.zeros((heads, keys)), np.zeros(keys)

    def add(self, weights: Floats, bins: npt.NDArray[np.int8], allowed: Bools, keys: slice = _ALL) -> None:
        """Add rows: weights `[head, query, key]` of these keys, the bin of each pair, and whether it counts."""
        chosen = bins[allowed]
        self.counts += np.bincount(chosen, minlength=BINS)
        self.sums += [np.bincount(chosen, one[allowed], BINS) for one in weights]
        self.given[:, keys] += np.where(allowed, weights, 0.0).sum(axis=1)
        self.givers[keys] += allowed.sum(axis=0)


def usual_weights(
    weights: Floats,
    bins: npt.NDArray[np.int8],
    allowed: Bools,
    sums: Doubles,
    counts: Doubles,
    layer: LayerSums | None = None,
) -> Doubles:
    """Return the usual weight of every cell of a layer's rows, float64 `[head, query, key]`.

    It is the larger of two means, both without the weight itself: the head's mean at that distance, and the mean that
    the other words give to that key.

    sums `[head, bin]` and counts `[bin]` are over several texts, this one among them. layer: the sums of all rows, if
    these are only some of the text's.
    """
    weights = np.where(allowed, weights, 0.0)
    few = counts <= FEW
    sums = np.where(few, sums.sum(axis=-1, keepdims=True), sums)
    counts = np.where(few, counts.sum(), counts)
    at_distance = (sums[:, bins] - weights) / np.maximum(counts[bins] - 1, 1)
    return np.maximum(at_distance, others_give(weights, allowed, layer))


def others_give(weights: Floats, counted: Bools, layer: LayerSums | None = None) -> Floats | Doubles:
    """Return the mean weight that a key gets from the other queries, `[head, query, key]`. counted: `[query, key]`.

    layer: the sums of all queries, if these are only some.
    """
    real = np.where(counted, weights, 0.0)
    given, givers = (real.sum(axis=1), counted.sum(axis=0)) if layer is None else (layer.given, layer.givers)
    return (given[:, None] - real) / np.maximum(givers - counted, 1)


def edges(record: AttentionRecord, over: Usual) -> list[list[Edge]]:
    """Return the strong edges of every head that has any; the heads, and the edges of each, farthest above first.

    An edge is one of `WordPairs`; it is strong when it is STRONG above its usual weight. A text with one pair of words
    has nothing to compare it with, and no strong edge. Silenced heads are left out: nothing follows from their weights.
    """
    found = []
    pairs = WordPairs.of(record)
    bins, different = pairs.bins(), pairs.different()
    for place, layer in enumerate(record.layers):
        weights, allowed, sums, counts = (
            record.weights[place],
            different & record.masks[place],
            over.sums[place],
            over.counts[place],
        )
        if counts.sum() >= 2:
            usual = usual_weights(weights, bins, allowed, sums, counts)
            found += strong_edges(layer, record.heads, weights, usual, allowed)
    silenced = silenced_heads(record)
    heard = [of_head for of_head in found if (of_head[0].layer, of_head[0].head) not in silenced]
    return sorted(heard, key=lambda of_head: -of_head[0].above)


def silenced_heads(record: AttentionRecord) -> list[tuple[int, int]]:
    """Return the heads that were silenced in a record's model, (layer, head)."""
    model = record.model
    named = model.changes.removeprefix("without ")
    if named == model.changes:
        return []
    try:
        return select_heads(named, None, model.layers, model.heads)
    except RequestError:  # a file of another program
        return []


def strong_edges(
    layer: int, heads: Sequence[int], weights: Floats, usual: Doubles, allowed: Bools, first: int = 0
) -> list[list[Edge]]:
    """Return the strong edges of each head of a layer that has any, farthest above first. first: the first query."""
    strong = (weights - usual >= STRONG) & allowed
    found = []
    for head, its, expected, marked in zip(heads, weights, usual, strong, strict=True):
        places = np.argwhere(marked).tolist()
        of_head = [Edge(layer, head, first + q, k, float(its[q, k]), float(expected[q, k])) for q, k in places]
        if of_head:
            found.append(sorted(of_head, key=lambda edge: -edge.above))
    return found


def telling_head(record: AttentionRecord, found: Sequence[Sequence[Edge]]) -> tuple[int, int]:
    """Return the head to look at first: that of the first strong edge `found`, or the first of the last layer."""
    last = record.layers[-1]
    return (found[0][0].layer, found[0][0].head) if found else (last, record.heads_of(last)[0])


def clear_patterns(record: AttentionRecord) -> list[tuple[int, int, str, float]]:
    """Return the heads that give CLEAR or more of their weight to the token itself, the previous or the next one.

    As (layer, head, pattern, share), the largest share first.
    """
    silenced = silenced_heads(record)
    clear = [
        (layer, head, summary.label, summary.shares[summary.label])
        for (layer, head), summary in summarise(record).items()
        if summary.label in PATTERNS and summary.shares[summary.label] >= CLEAR and (layer, head) not in silenced
    ]
    return sorted(clear, key=lambda one: -one[3])


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
        return tokens.real
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
    pairs = WordPairs.of(record)
    bins, different = pairs.bins(), pairs.different()
    for place, layer in enumerate(record.layers):
        words = different & record.masks[place]
        allowed = chosen & record.masks[place] & (words if content else True)
        if not allowed.any():
            continue
        choosing = allowed & (record.masks[place].sum(axis=1) > 1)[:, None]
        if query == ANY and choosing.any():
            allowed = choosing
        weights = record.weights[place]
        to_key = others_give(weights, np.broadcast_to(counted_queries(record, layer)[:, None], chosen.shape))
        usual = np.where(words, usual_weights(weights, bins, words, over.sums[place], over.counts[place]), to_key)
        ranked = np.where(allowed, weights - usual if content else weights, -np.inf)
        for head in record.heads_of(layer):
            column = record.heads.index(head)
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
    return list(dict.fromkeys([*first, *record.each_head]))


# --- the tokens that a model wrote ---------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenToken:
    """A token that a model wrote.

    query: the row that it was chosen from. likely: the most likely tokens there with their probabilities, the best
    first. probability: its own, if it is one of them. edges: of its row, those far above their usual weight, the
    farthest above first.
    """

    query: int
    likely: dict[str, float]
    probability: float | None
    edges: Sequence[Edge]

    @property
    def place(self) -> int:
        """Return its place in the text."""
        return self.query + 1


def written_tokens(record: AttentionRecord, found: Sequence[Sequence[Edge]]) -> list[WrittenToken]:
    """Return the tokens that the model wrote, in order. found: the strong edges of each head."""
    assert record.written is not None
    of_rows: dict[int, list[Edge]] = defaultdict(list)
    for of_head in found:
        for edge in of_head:
            of_rows[edge.query].append(edge)
    likely: dict[int, dict[str, float]] = defaultdict(dict)
    for answer in record.prediction.answers if record.prediction is not None else ():
        if answer.start is not None and answer.probability is not None:
            likely[answer.start].setdefault(answer.label, answer.probability)
    tokens = []
    for place in range(record.written, len(record.tokens)):
        query = place - 1
        probability = likely[query].get(record.tokens.shown[place])
        tokens.append(
            WrittenToken(query, likely[query], probability, sorted(of_rows[query], key=lambda edge: -edge.above))
        )
    return tokens
