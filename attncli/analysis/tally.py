"""What every head finds in the sentences of a treebank, added up: syntactic heads by relation, and edges of trees.

Of each head of the model, and in both directions, the strongest weight between a word and the *other words* is its
guess at the word's syntactic head. Where that comes from: `attncli.analysis.probing`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from attncli.analysis.sinks import first_is_sink
from attncli.analysis.spanning_trees import Ints, tree_edges
from attncli.analysis.words import merge_words
from attncli.base.arrays import Floats
from attncli.record import AttentionRecord
from attncli.text.trees import Sentence

DIRECTIONS = ("child->head", "head->child")  # who looks at whom
ALL = "all"  # all relations together
Key = TypeVar("Key")
Value = TypeVar("Value", bound=Any)
NOBODY, ROOT = -1, -2  # in place of a word: no guess, no syntactic head


@dataclass(frozen=True)
class Skipped:
    """How many sentences were skipped for one reason, and the file and the line that the first of them stands in."""

    count: int
    file: str
    line: int

    def __add__(self, later: "Skipped") -> "Skipped":
        return replace(self, count=self.count + later.count)


@dataclass(frozen=True)
class Tally:
    """What all heads found in some sentences. Tallies add up, exactly; memory does not grow with sentences.

    sentences, word_count: how many were read. offsets: the words asked for, by relation and the distance to their
    syntactic head. found_at: those that each head found, `[layer, head, direction]`, by relation and this distance.
    edges: pairs of words that depend on each other. tree_edges: of those, `[layer, head]` in the tree of each head;
    layer_edges: `[layer]`, of a layer's mean map. chain_edges: of those, pairs of neighbours.
    skips: sentences that could not be read, by the reason.
    """

    sentences: int
    word_count: int
    offsets: dict[str, Counter[int]]
    found_at: dict[tuple[str, int], Ints]
    edges: int
    chain_edges: int
    tree_edges: Ints
    layer_edges: Ints
    skips: dict[str, Skipped] = field(default_factory=dict)

    @classmethod
    def nothing(cls, layers: int, heads: int) -> "Tally":
        """What to begin with."""
        trees, means = np.zeros((layers, heads), dtype=np.int64), np.zeros(layers, dtype=np.int64)
        return cls(0, 0, {}, {}, 0, 0, trees, means)

    def __add__(self, other: "Tally") -> "Tally":
        """Of the sentences of both; those of `other` come later."""
        return Tally(
            sentences=self.sentences + other.sentences,
            word_count=self.word_count + other.word_count,
            offsets=added(self.offsets, other.offsets),
            found_at=added(self.found_at, other.found_at),
            edges=self.edges + other.edges,
            chain_edges=self.chain_edges + other.chain_edges,
            tree_edges=self.tree_edges + other.tree_edges,
            layer_edges=self.layer_edges + other.layer_edges,
            skips=added(self.skips, other.skips),
        )

    def plus(self, maps: Floats, sentence: Sentence) -> "Tally":
        """And one more sentence, by its `[layer, head, word, word]` maps (`word_maps`)."""
        heads = np.array([ROOT if head is None else head for head in sentence.heads], dtype=np.int64)
        correct = strongest_words(maps) == heads
        offsets: dict[str, Counter[int]] = {}
        found_at: dict[tuple[str, int], Ints] = {}
        for relation, places in asked_words(sentence).items():
            away = heads[places] - places
            offsets[relation] = Counter(away.tolist())
            for offset in offsets[relation]:
                found_at[relation, offset] = correct[..., np.array(places)[away == offset]].sum(axis=-1)
        gold, shared = tree_edges(maps, sentence)
        edges, chain_edges = int(gold.sum()) // 2, int(gold.diagonal(offset=1).sum())
        trees, means = shared[:, :-1], shared[:, -1]
        return self + Tally(1, len(sentence), offsets, found_at, edges, chain_edges, trees, means)

    def plus_skipped(self, why: str, file: str, line: int) -> "Tally":
        """And one more sentence, in that line, that could not be read."""
        return self + replace(Tally.nothing(*self.tree_edges.shape), skips={why: Skipped(1, file, line)})

    @property
    def skipped(self) -> int:
        """How many sentences could not be read."""
        return sum(skipped.count for skipped in self.skips.values())

    @property
    def seen(self) -> int:
        """How many sentences it has been given."""
        return self.sentences + self.skipped

    @cached_property
    def counts(self) -> Counter[str]:
        """Words asked for, by relation."""
        return Counter({relation: offsets.total() for relation, offsets in self.offsets.items()})

    @cached_property
    def found(self) -> dict[str, Ints]:
        """Of those, `[layer, head, direction]` that each head found."""
        found: dict[str, Ints] = {}
        for (relation, _), right in self.found_at.items():
            found[relation] = found.get(relation, 0) + right
        return found

    def best(self, relation: str) -> tuple[int, int, int]:
        """Layer, head and direction (its place in DIRECTIONS) that find most; of equals the first."""
        layer, head, direction = np.unravel_index(int(self.found[relation].argmax()), self.found[relation].shape)
        return int(layer), int(head), int(direction)

    def best_offset(self, relation: str) -> int:
        """The distance that finds most; of equals the shortest, then the one before."""
        offsets = self.offsets[relation]
        return max(offsets, key=lambda offset: (offsets[offset], -abs(offset), -offset))


def word_maps(record: AttentionRecord) -> Floats:
    """`[layer, head, word, word]`: the record's maps between words, without what the tokenizer added.

    The record's tokens say which word they are of (`attncli.text.trees.words_of`). Weights to the pieces of a word
    add up, weights from them are averaged (Clark et al. 2019, section 4.1); from a word to itself there is 0. Where
    the first word is a sink (`first_is_sink`), weights to it are 0 too.
    """
    merged = merge_words(record)
    kept = np.flatnonzero(~np.array(merged.tokens.special))
    maps: Floats = merged.weights[..., kept[:, None], kept]
    maps[..., np.arange(len(kept)), np.arange(len(kept))] = 0
    if first_is_sink(merged):
        maps[..., 0] = 0
    return maps


def asked_words(sentence: Sentence) -> dict[str, list[int]]:
    """By relation, and for ALL: where the words stand whose syntactic head is looked for. No roots, no punctuation."""
    asked: dict[str, list[int]] = {}
    columns = zip(sentence.heads, sentence.relations, sentence.punctuation, strict=True)
    for word, (head, relation, punctuation) in enumerate(columns):
        if head is not None and not punctuation:
            asked.setdefault(ALL, []).append(word)
            if relation != ALL:
                asked.setdefault(relation, []).append(word)
    return asked


def strongest_words(maps: Floats) -> Ints:
    """The word that each head takes for each word's syntactic head: `[layer, head, direction, word]`.

    child->head: the word that it attends to most. head->child: the word that attends to it most. NOBODY where
    there is no weight at all.
    """
    by_direction = [np.where(maps.max(axis=axis) > 0, maps.argmax(axis=axis), NOBODY) for axis in (-1, -2)]
    return np.stack(by_direction, axis=2)


def tally(read: Iterable[tuple[AttentionRecord | str, str, Sentence]], nothing: Tally) -> Iterator[Tally]:
    """What all heads have found after each of these sentences.

    read: of each its record, or why there is none, and which file it stands in.
    """
    so_far = nothing
    for record, file, sentence in read:
        if isinstance(record, str):
            so_far = so_far.plus_skipped(record, file, sentence.line)
        else:
            so_far = so_far.plus(word_maps(record), sentence)
        yield so_far


def added(one: dict[Key, Value], other: dict[Key, Value]) -> dict[Key, Value]:
    """Both, by what they have in common."""
    return {**one, **{key: one[key] + more if key in one else more for key, more in other.items()}}


def check_tally(found: Tally) -> None:
    """Raises ValueError for what no sentences have."""
    words = found.counts[ALL]
    if found.word_count < found.sentences or words > found.word_count or any(n > words for n in found.counts.values()):
        raise ValueError("it has more words of a relation than there are")
    if any(not between(right, found.offsets[relation][offset]) for (relation, offset), right in found.found_at.items()):
        raise ValueError("its heads find other words than there are")
    if not found.chain_edges <= found.edges <= found.word_count:
        raise ValueError("it has more edges than words")
    if not between(found.tree_edges, found.edges) or not between(found.layer_edges, found.edges):
        raise ValueError("its trees have other edges than there are")


def between(counts: Ints, most: int) -> bool:
    """Whether all of them are from 0 to `most`."""
    return bool((counts >= 0).all() and (counts <= most).all())
