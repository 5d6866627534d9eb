"""The heads that stand out on a text: they have edges between words far above their usual weight.

A weight alone does not say that: a head that always looks at the token before is strong everywhere, and so is one that
looks at the same token from everywhere. So every weight stands beside what is usual, and counts by how far it is above.
What is a sink for a reason of its own (`attncli.analysis.sinks`) does not count as a word.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.analysis.patterns import summarise
from attncli.analysis.sinks import first_is_sink
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.record import AttentionRecord
from attncli.record.selection import select
from attncli.text.windows import NO_WORD, word_places

# Distances, up to these, that are taken together: 1, 2, 3, 4, 5 to 8, 9 to 16, more; forwards and backwards apart.
BORDERS = (1, 2, 3, 4, 8, 16)
BINS = 2 * len(BORDERS) + 3  # with 0 in the middle, where nothing is counted
FEW = 5  # pairs of words: of fewer at a distance no mean is taken, but of all distances
STRONG = 0.3  # an edge is strong when it is so far above what is usual
CLEAR = 0.5  # a pattern is clear when it takes so much of the weight
PATTERNS = ("self", "previous", "next")  # those that are no sinks


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

    each: the sums of each text.
    """

    each: Sequence[TextSums]

    @classmethod
    def of(cls, records: Iterable[AttentionRecord]) -> "Usual | None":
        """Return them over records of the same layers and heads; None where there is no record."""
        each = [text_sums(record) for record in records]
        return cls(each) if each else None

    @classmethod
    def of_text(cls, record: AttentionRecord) -> "Usual":
        return cls([text_sums(record)])

    @classmethod
    def with_text(cls, record: AttentionRecord, others: "Usual | None") -> "Usual":
        """Return them over a text and others, where there are any. A text that is among the others counts once."""
        here = text_sums(record)
        return cls([*(one for one in (others.each if others else ()) if not has_tokens(one, record)), here])

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
        return len(self.each)


def text_sums(record: AttentionRecord) -> TextSums:
    """Return the sums of one record."""
    pairs = WordPairs(record)
    sums = np.zeros((*record.weights.shape[:2], BINS))
    counts = np.zeros((len(record.layers), BINS))
    for place, maps in enumerate(record.weights):
        allowed = pairs.allowed(place)
        chosen = pairs.bins[allowed]
        counts[place] = np.bincount(chosen, minlength=BINS)
        sums[place] = [np.bincount(chosen, one[allowed], BINS) for one in maps]
    return TextSums(placed_tokens(record), sums, counts)


def placed_tokens(record: AttentionRecord) -> dict[int, tuple[str, int, int]]:
    """Return the tokens of a record without [PAD], by their places in the text: (text, id, segment)."""
    tokens, part = record.tokens, record.part
    places = select(part.chosen, part.tokens, "token") if part is not None and part.chosen else range(len(tokens))
    entries = zip(places, tokens.text, tokens.ids, tokens.segments, tokens.padding, strict=False)
    return {place: (text, number, segment) for place, text, number, segment, padding in entries if not padding}


def has_tokens(text: TextSums, record: AttentionRecord) -> bool:
    """Return whether a record is of this text, or of some of its tokens."""
    there, part = placed_tokens(record), record.part
    length = len(there) if part is None else part.tokens
    return length == len(text.tokens) and there.items() <= text.tokens.items()


def distance_bins(record: AttentionRecord) -> npt.NDArray[np.int64]:
    """Return the bin of each distance, int `[query, key]`, below BINS.

    Where the keys are of another text than the queries there is no distance, and all are in one bin.
    """
    shape = len(record.tokens), len(record.keys)
    if record.key_tokens is not None:
        return np.zeros(shape, dtype=np.int64)
    distance = np.arange(shape[1]) - np.arange(shape[0])[:, None]
    size = np.searchsorted(BORDERS, np.abs(distance)) + 1
    return np.where(distance == 0, BINS // 2, BINS // 2 + np.sign(distance) * size)


class WordPairs:
    """The pairs of tokens of a record that count: two different words, neither a sink nor punctuation.

    bins: as `distance_bins` returns them.
    """

    def __init__(self, record: AttentionRecord) -> None:
        self.record = record
        self.bins = distance_bins(record)
        queries, keys = word_places(record.tokens)[:, None], word_places(record.keys)
        if first_is_sink(record):
            queries[0] = keys[0] = NO_WORD
        both: Bools = (queries != NO_WORD) & (keys != NO_WORD)
        self.different: Bools = both & (queries != keys) if record.key_tokens is None else both

    def allowed(self, place: int) -> Bools:
        """Return the pairs that the mask of the layer at `place` allows: bool `[query, key]`."""
        return self.different & self.record.masks[place]

    def usual(self, place: int, over: Usual) -> Doubles:
        """Return the usual weight of every cell of the layer at `place`: float64 `[head, query, key]`.

        It is the larger of two means, both without the weight itself: the head's mean at that distance (`over` texts,
        this one among them), and the mean that the other words give to that key.
        """
        allowed = self.allowed(place)
        weights = np.where(allowed, self.record.weights[place], 0.0)
        sums, counts = over.sums[place], over.counts[place]
        few = counts <= FEW
        sums = np.where(few, sums.sum(axis=-1, keepdims=True), sums)
        counts = np.where(few, counts.sum(), counts)
        at_distance = (sums[:, self.bins] - weights) / np.maximum(counts[self.bins] - 1, 1)
        usual: Doubles = np.maximum(at_distance, others_give(weights, allowed))
        return usual


def others_give(weights: Floats, counted: Bools) -> Floats:
    """Return the mean weight that a key gets from the other queries, `[head, query, key]`. counted: `[query, key]`."""
    real = np.where(counted, weights, 0.0)
    others = np.maximum(counted.sum(axis=0) - counted.astype(int), 1)
    mean: Floats = (real.sum(axis=1, keepdims=True) - real) / others
    return mean


def edges(record: AttentionRecord, over: Usual) -> list[list[Edge]]:
    """Return the strong edges of every head that has any; the heads, and the edges of each, farthest above first.

    An edge is one of `WordPairs`; it is strong when it is STRONG above its usual weight. A text with one pair of words
    has nothing to compare it with, and no strong edge.
    """
    found = []
    pairs = WordPairs(record)
    for place, layer in enumerate(record.layers):
        if over.counts[place].sum() < 2:
            continue
        usual = pairs.usual(place, over)
        strong = (record.weights[place] - usual >= STRONG) & pairs.allowed(place)
        for column, head in enumerate(record.heads):
            of_head = [
                Edge(layer, head, q, k, float(record.weights[place, column, q, k]), float(usual[column, q, k]))
                for q, k in np.argwhere(strong[column]).tolist()
            ]
            if of_head:
                found.append(sorted(of_head, key=lambda edge: -edge.above))
    return sorted(found, key=lambda of_head: -of_head[0].above)


def telling_head(record: AttentionRecord, found: Sequence[Sequence[Edge]]) -> tuple[int, int]:
    """Return the head to look at first: that of the first strong edge `found`, or the first of the last layer."""
    return (found[0][0].layer, found[0][0].head) if found else (record.layers[-1], record.heads[0])


def clear_patterns(record: AttentionRecord) -> list[tuple[int, int, str, float]]:
    """Return the heads that give CLEAR or more of their weight to the token itself, the previous or the next one.

    As (layer, head, pattern, share), the largest share first.
    """
    summaries = summarise(record)
    clear = [
        (layer, head, summary.label, summary.shares[summary.label])
        for (layer, head), summary in summaries.items()
        if summary.label in PATTERNS and summary.shares[summary.label] >= CLEAR
    ]
    return sorted(clear, key=lambda one: -one[3])
