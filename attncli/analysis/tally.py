"""What every head finds in the sentences of a treebank, added up: syntactic heads by relation, and edges of trees.

Of each head of the model, and in both directions, the strongest weight between a word and the *other words* is its
guess at the word's syntactic head. Where that comes from: `attncli.analysis.probing`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from attncli.analysis.spanning_trees import Ints, tree_edges
from attncli.analysis.words import merge_words
from attncli.base.arrays import Floats
from attncli.record import AttentionRecord
from attncli.text.trees import Sentence

DIRECTIONS = ("child->head", "head->child")  # who looks at whom
ALL = "all"  # all relations together
NOBODY, ROOT = -1, -2  # in place of a word: no guess, no syntactic head


@dataclass(frozen=True)
class Tally:
    """What all heads found in some sentences. Memory does not grow with their number.

    sentences, word_count: how many were read; skipped: sentences that could not be. counts: words asked for, by
    relation. found: of those, `[layer, head, direction]` that each head found. offsets: the words by the distance to
    their syntactic head. found_at: those that each head found, by relation and this distance.
    edges: pairs of words that depend on each other. tree_edges: of those, `[layer, head]` in the tree of each head;
    layer_edges: `[layer]`, of a layer's mean map. chain_edges: of those, pairs of neighbours.
    """

    sentences: int
    skipped: int
    word_count: int
    counts: Counter[str]
    found: dict[str, Ints]
    offsets: dict[str, Counter[int]]
    edges: int
    chain_edges: int
    tree_edges: Ints
    layer_edges: Ints
    found_at: dict[tuple[str, int], Ints] = field(default_factory=dict)

    @classmethod
    def nothing(cls, layers: int, heads: int) -> "Tally":
        """What to begin with."""
        trees, means = np.zeros((layers, heads), dtype=np.int64), np.zeros(layers, dtype=np.int64)
        return cls(0, 0, 0, Counter(), {}, {}, 0, 0, trees, means)

    def plus(self, maps: Floats, sentence: Sentence) -> "Tally":
        """And one more sentence, by its `[layer, head, word, word]` maps (`word_maps`)."""
        counts, found, offsets = Counter(self.counts), dict(self.found), dict(self.offsets)
        found_at = dict(self.found_at)
        heads = np.array([ROOT if head is None else head for head in sentence.heads], dtype=np.int64)
        correct = strongest_words(maps) == heads
        for relation, places in asked_words(sentence).items():
            counts[relation] += len(places)
            found[relation] = found.get(relation, 0) + correct[..., places].sum(axis=-1)
            away = heads[places] - places
            offsets[relation] = offsets.get(relation, Counter()) + Counter(away.tolist())
            for offset in set(away.tolist()):
                right = correct[..., np.array(places)[away == offset]].sum(axis=-1)
                found_at[relation, offset] = found_at.get((relation, offset), 0) + right
        gold, shared = tree_edges(maps, sentence)
        return Tally(
            sentences=self.sentences + 1,
            skipped=self.skipped,
            word_count=self.word_count + len(sentence),
            counts=counts,
            found=found,
            offsets=offsets,
            edges=self.edges + int(gold.sum()) // 2,
            chain_edges=self.chain_edges + int(gold.diagonal(offset=1).sum()),
            tree_edges=self.tree_edges + shared[:, :-1],
            layer_edges=self.layer_edges + shared[:, -1],
            found_at=found_at,
        )

    @property
    def seen(self) -> int:
        """How many sentences it has been given."""
        return self.sentences + self.skipped

    def plus_skipped(self) -> "Tally":
        """And one more sentence that could not be read."""
        return replace(self, skipped=self.skipped + 1)

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
    add up, weights from them are averaged (Clark et al. 2019, section 4.1); from a word to itself there is 0.
    """
    merged = merge_words(record)
    kept = np.flatnonzero(~np.array(merged.tokens.special))
    maps: Floats = merged.weights[..., kept[:, None], kept]
    maps[..., np.arange(len(kept)), np.arange(len(kept))] = 0
    return maps


def asked_words(sentence: Sentence) -> dict[str, list[int]]:
    """By relation, and for ALL: where the words stand whose syntactic head is looked for. No roots, no punctuation."""
    asked: dict[str, list[int]] = {}
    columns = zip(sentence.heads, sentence.relations, sentence.punctuation, strict=True)
    for word, (head, relation, punctuation) in enumerate(columns):
        if head is not None and not punctuation:
            asked.setdefault(ALL, []).append(word)
            asked.setdefault(relation, []).append(word)
    return asked


def strongest_words(maps: Floats) -> Ints:
    """The word that each head takes for each word's syntactic head: `[layer, head, direction, word]`.

    child->head: the word that it attends to most. head->child: the word that attends to it most. NOBODY where
    there is no weight at all.
    """
    by_direction = [np.where(maps.max(axis=axis) > 0, maps.argmax(axis=axis), NOBODY) for axis in (-1, -2)]
    return np.stack(by_direction, axis=2)


def tally(records: Iterable[tuple[AttentionRecord | None, Sentence]], so_far: Tally) -> Iterator[Tally]:
    """What all heads have found after each of these sentences, going on from what there is `so_far`.

    A sentence without a record is counted as skipped.
    """
    for record, sentence in records:
        so_far = so_far.plus_skipped() if record is None else so_far.plus(word_maps(record), sentence)
        yield so_far
