"""Find the edges that stand out, and the keys that are sinks.

A large weight alone does not stand out. A head that always looks at the previous token has large weights everywhere,
and so does a head that looks at one token from everywhere. So each weight is compared with its usual weight.

A sink takes weight because a row has to sum to 1, not because of its content. [CLS] and [SEP] are sinks (Clark et al.
2019, section 3.2). In a decoder any first token is one (Xiao et al. 2023, "Efficient Streaming Language Models with
Attention Sinks"): every query sees it. Sinks do not count as words.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
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
    """Return the keys that are sinks, bool `[key]`: the special tokens, and the first token if `first_is_sink`."""
    found: Bools = np.array(record.keys.special)
    found[record.keys.first] |= first_is_sink(record)
    return found


def first_is_sink(record: AttentionRecord) -> bool:
    """Return whether the first token belongs to the text itself, and the record's masks only look back.

    Masks only look back if, apart from [PAD], no token sees a later one in any layer and some token sees an earlier
    one.
    """
    tokens, part = record.keys, record.part
    if record.crosses or tokens.special[tokens.first]:
        return False
    if part is not None and part.chosen and select(part.chosen, part.tokens, "token")[0] > tokens.first:
        return False  # the record begins later than its text does
    queries, keys = (np.flatnonzero(~np.array(side.padding)) for side in (record.tokens, tokens))
    masks, places = record.compact_masks[..., queries[:, None], keys], record.places[queries, None]
    return bool((masks & (keys < places)).any() and not (masks & (keys > places)).any())


# Upper borders of the bins of distances: 1, 2, 3, 4, 5 to 8, 9 to 16, more; separately forwards and backwards.
BORDERS = (1, 2, 3, 4, 8, 16)
BINS = 2 * len(BORDERS) + 3  # the middle one is for distance 0, and stays empty
FEW = 5  # for a distance with at most this many pairs, use the mean over all distances
STRONG = 0.3  # an edge is strong if it is at least this much above its usual weight
CLEAR = 0.5  # a pattern is clear if it has at least this share of the weight
PATTERNS = ("self", "previous", "next")  # patterns other than sinks
_ALL = slice(None)
_TOGETHER = 2**21  # weights to compare at a time, at most


@dataclass(frozen=True)
class Edge:
    """A weight from one token to another, by position, and its usual weight."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    usual: float

    @property
    def above(self) -> float:
        """The weight minus the usual weight."""
        return self.weight - self.usual


class TextSums(NamedTuple):
    """The sums of one text.

    tokens: its tokens without [PAD], by position in the text: (text, id, segment). sums: float64 `[layer, head, bin]`,
    of weights between two different words that the mask allows (`WordPairs`). counts: float64 `[layer, bin]`, the
    numbers of these weights.
    """

    tokens: dict[int, tuple[str, int, int]]
    sums: Doubles
    counts: Doubles


@dataclass(frozen=True)
class Usual:
    """The weights that heads usually give between words at each distance, over texts.

    each: the sums of each text, or of several texts together. count: the number of texts, if an entry sums several.
    """

    each: Sequence[TextSums]
    count: int | None = None

    @classmethod
    def of(cls, records: Iterable[AttentionRecord]) -> "Usual | None":
        """Compute the usual weights over records of the same layers and heads; None without records."""
        each = [text_sums(record) for record in records]
        return cls(each) if each else None

    @classmethod
    def of_text(cls, record: AttentionRecord) -> "Usual":
        """Compute the usual weights over a text and the other texts whose sums its record holds."""
        here, kept = text_sums(record), record.usual
        if kept is None or kept.sums.shape[-1] != BINS:
            return cls([here])
        return cls([TextSums({}, kept.sums, kept.counts), here], kept.texts + 1)

    @classmethod
    def with_text(cls, record: AttentionRecord, others: "Usual | None") -> "Usual":
        """Compute the usual weights over a text and others, if any."""
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
        """Select the usual weights of some layers and heads, by index."""
        each = [TextSums(one.tokens, one.sums[np.ix_(rows, columns)], one.counts[rows]) for one in self.each]
        return Usual(each, self.count)


def with_usual(record: AttentionRecord, others: Usual | None) -> AttentionRecord:
    """Return the record with the usual weights of its heads over other texts, excluding its own text."""
    own = tokens_of_record(record)
    usual = usual_over_others(own, len(own) if record.part is None else record.part.tokens, others)
    return record if usual is None else replace(record, usual=usual)


def usual_over_others(own: dict[int, tuple[str, int, int]], length: int, others: Usual | None) -> UsualWeights | None:
    """Return the usual weights over other texts, excluding the text of `length` tokens that has these tokens."""
    each = [
        one
        for one in (others.each if others else ())
        if len(one.tokens) != length
        or not own.items() <= one.tokens.items()  # otherwise it is this text, or contains it
    ]
    if not each:
        return None
    over = Usual(each)
    return UsualWeights(over.sums, over.counts, over.texts)


def text_sums(record: AttentionRecord) -> TextSums:
    """Return the sums of one record."""
    each = layer_sums(record)
    sums, counts = np.stack([one.sums for one in each]), np.stack([one.counts for one in each])
    return TextSums(tokens_of_record(record), sums, counts)


def layer_sums(record: AttentionRecord) -> "list[LayerSums]":
    """Return the sums of each layer of a record."""
    pairs = WordPairs.of(record)
    each = [LayerSums(len(record.heads), len(record.keys)) for _ in record.layers]
    for rows in _steps(record):
        bins, different = pairs.bins(rows), pairs.different(rows)
        for one, maps, mask in zip(each, record.weights, record.masks, strict=True):
            one.add(maps[:, rows], bins, different & mask[rows])
    return each


def _steps(record: AttentionRecord) -> Iterator[slice]:
    """Yield slices of rows of a record's maps, so that copies of these rows for all heads take little memory."""
    together = max(1, _TOGETHER // (len(record.heads) * len(record.keys)))
    for start in range(0, len(record.tokens), together):
        yield slice(start, min(start + together, len(record.tokens)))


def tokens_of_record(record: AttentionRecord) -> dict[int, tuple[str, int, int]]:
    """Return the tokens of a record by position in the text, as `placed_tokens` does."""
    part = record.part
    places = select(part.chosen, part.tokens, "token") if part is not None and part.chosen else None
    return placed_tokens(record.tokens if record.crosses else record.keys, places)


def placed_tokens(tokens: Tokens, places: Sequence[int] | None = None) -> dict[int, tuple[str, int, int]]:
    """Return tokens without [PAD] by position, by default counted from 0: (text, id, segment)."""
    entries = zip(places or range(len(tokens)), tokens.text, tokens.ids, tokens.segments, tokens.padding, strict=False)
    return {place: (text, number, segment) for place, text, number, segment, padding in entries if not padding}


class WordPairs:
    """The pairs of tokens to count: two different words, neither a sink nor punctuation.

    tokens: of the queries. keys: of the keys, if they are from another text. first_is_sink: the first token is a sink.
    rows: the positions of the queries, if not all tokens are queries. Methods take some queries and keys, by default
    all.
    """

    def __init__(
        self, tokens: Tokens, keys: Tokens | None, first_is_sink: bool, rows: Sequence[int] | None = None
    ) -> None:
        self.crosses = keys is not None
        self.words = word_places(tokens), word_places(tokens if keys is None else keys)
        if first_is_sink:
            for words in self.words:
                words[tokens.first] = NO_WORD
        self.places = np.arange(len(tokens)) if rows is None else np.array(rows)
        self.words = self.words[0][self.places], self.words[1]

    @classmethod
    def of(cls, record: AttentionRecord) -> "WordPairs":
        if record.crosses:
            return cls(record.tokens, record.key_tokens, False)
        return cls(record.keys, None, first_is_sink(record), record.rows)

    def bins(self, queries: slice = _ALL, keys: slice = _ALL) -> npt.NDArray[np.int8]:
        """Return the bin of each distance, `[query, key]`, below BINS. Between two texts there is one bin."""
        rows, columns = self.places[queries], np.arange(len(self.words[1]))[keys]
        if self.crosses:
            return np.zeros((len(rows), len(columns)), dtype=np.int8)
        distance = columns - rows[:, None]
        size = np.searchsorted(BORDERS, np.abs(distance)) + 1
        return np.where(distance == 0, BINS // 2, BINS // 2 + np.sign(distance) * size).astype(np.int8)

    def different(self, queries: slice = _ALL, keys: slice = _ALL) -> Bools:
        """Return the pairs to count if the mask allows them, bool `[query, key]`."""
        rows, columns = self.words[0][queries, None], self.words[1][keys]
        both: Bools = (rows != NO_WORD) & (columns != NO_WORD)
        return both if self.crosses else both & (rows != columns)


class LayerSums:
    """The weights of a layer's heads between words, summed over rows.

    sums `[head, bin]`, counts `[bin]`: as in `TextSums`. given `[head, key]`: the sum of weights on each key. givers
    `[key]`: the number of queries in that sum. All are float64.
    """

    def __init__(self, heads: int, keys: int) -> None:
        self.sums, self.counts = np.zeros((heads, BINS)), np.zeros(BINS)
        self.given, self.givers = np.zeros((heads, keys)), np.zeros(keys)

    def add(self, weights: Floats, bins: npt.NDArray[np.int8], allowed: Bools, keys: slice = _ALL) -> None:
        """Add rows: weights `[head, query, key]` of these keys, the bin of each pair, and whether to count it."""
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

    sums `[head, bin]` and counts `[bin]` are over several texts, including this one. layer: the sums of all rows, if
    these are only some rows of the text.
    """
    weights = np.where(allowed, weights, 0.0)
    few = counts <= FEW
    sums = np.where(few, sums.sum(axis=-1, keepdims=True), sums)
    counts = np.where(few, counts.sum(), counts)
    at_distance = (sums[:, bins] - weights) / np.maximum(counts[bins] - 1, 1)
    return np.maximum(at_distance, mean_of_other_queries(weights, allowed, layer))


def mean_of_other_queries(weights: Floats, counted: Bools, layer: LayerSums | None = None) -> Floats | Doubles:
    """Return the mean weight that a key gets from the other queries, `[head, query, key]`. counted: `[query, key]`.

    layer: the sums of all queries, if these are only some.
    """
    real = np.where(counted, weights, 0.0)
    given, givers = (real.sum(axis=1), counted.sum(axis=0)) if layer is None else (layer.given, layer.givers)
    return (given[:, None] - real) / np.maximum(givers - counted, 1)


def edges(record: AttentionRecord, over: Usual) -> list[list[Edge]]:
    """Return the strong edges of every head that has any. Heads, and edges within a head, are sorted by `Edge.above`.

    An edge is a pair of `WordPairs`. It is strong if it is at least STRONG above its usual weight. A text with one pair
    of words has no strong edge, because there is nothing to compare with. Silenced heads are omitted, because their
    weights have no effect.
    """
    found: defaultdict[tuple[int, int], list[Edge]] = defaultdict(list)
    pairs, of_layers, silenced = WordPairs.of(record), layer_sums(record), silenced_heads(record)
    for rows in _steps(record):
        bins, different = pairs.bins(rows), pairs.different(rows)
        for place, layer in enumerate(record.layers):
            weights, allowed = record.weights[place, :, rows], different & record.masks[place, rows]
            sums, counts = over.sums[place], over.counts[place]
            if counts.sum() >= 2:
                usual = usual_weights(weights, bins, allowed, sums, counts, of_layers[place])
                for of_head in strong_edges(layer, record.heads, weights, usual, allowed, rows.start):
                    found[layer, of_head[0].head] += of_head
    ordered = [
        sorted(found[head], key=lambda edge: -edge.above)
        for head in product(record.layers, record.heads)
        if head in found and head not in silenced
    ]
    return sorted(ordered, key=lambda of_head: -of_head[0].above)


def silenced_heads(record: AttentionRecord) -> list[tuple[int, int]]:
    """Return the heads that were silenced in a record's model, (layer, head)."""
    model = record.model
    named = model.changes.removeprefix("without ")
    if named == model.changes:
        return []
    try:
        return select_heads(named, None, model.layers, model.heads)
    except RequestError:  # a file from another program
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
    """Return the heads with at least CLEAR of their weight on the token itself, the previous or the next one.

    Returns (layer, head, pattern, share), the largest share first.
    """
    silenced = silenced_heads(record)
    clear = [
        (layer, head, summary.label, summary.shares[summary.label])
        for (layer, head), summary in summarise(record).items()
        if summary.label in PATTERNS and summary.shares[summary.label] >= CLEAR and (layer, head) not in silenced
    ]
    return sorted(clear, key=lambda one: -one[3])


ANY = "*"  # stands for any token
SINK = 0.3  # a key with at least this mean weight from the other queries is a sink


@dataclass(frozen=True)
class Rank:
    """A head with its means over the texts that have both tokens.

    weight: mean of its strongest weights between them. usual: mean of their usual weights. sinks: the number of texts
    in which that weight goes to a sink. edges: these weights, one per text.
    """

    layer: int
    head: int
    weight: float
    usual: float
    sinks: int
    edges: list[Edge]

    @property
    def above(self) -> float:
        """The mean weight minus the mean usual weight."""
        return self.weight - self.usual


def places(name: str, tokens: Tokens) -> list[int]:
    """Return the positions of the token that `select_token` selects for this name, and of all tokens with that text.

    ANY stands for all except [PAD]. A number, or a name with a number ("it#2"), is one token.
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

    content: consider only edges between different words, and choose the one farthest above its usual weight. Layers
    whose masks allow no such edge are omitted. The usual weight of an edge between words is that of `usual_weights`; of
    any other edge, the mean weight of the other tokens on the key. A sink is one of `sinks`, or a key with a mean
    weight of at least SINK from the other tokens. If the query is ANY, tokens that see only one key are skipped,
    because that weight is always 1. Both names must be in the text.
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
        to_key = mean_of_other_queries(weights, np.broadcast_to(counted_queries(record, layer)[:, None], chosen.shape))
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
    """Order heads by their mean weights over texts. content: by how far the mean is above the mean usual weight."""
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

    query: the position that predicted it. likely: the most likely tokens there with their probabilities, the best
    first. probability: its own, if it is one of them. edges: strong edges of that row, the farthest above usual first.
    """

    query: int
    likely: dict[str, float]
    probability: float | None
    edges: Sequence[Edge]

    @property
    def place(self) -> int:
        """Its position in the text."""
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
