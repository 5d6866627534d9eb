"""Which head finds the syntactic head of a word: for each dependency relation, and as whole trees.

After Clark et al. 2019, "What Does BERT Look At?", section 4 and table 1. Of each head of the model, and in both
directions, the strongest weight between a word and the *other words* is its guess at the word's syntactic head:
weight from a word to itself, to [CLS] and to [SEP] does not count; punctuation can be guessed, as there. Roots and
punctuation are not asked for their syntactic head. The authors' code differs in four things: it counts those two
under "all" (though it has no rows for them), tries offsets from -3 to 2 only, takes the last word for an offset past
the end of the sentence, and for an English possessor takes the guess of the "'s" after it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attncli.analysis.words import merge_words
from attncli.record import AttentionRecord, Floats
from attncli.treebank import Sentence

Ints = npt.NDArray[np.int64]

DIRECTIONS = ("child->head", "head->child")  # who looks at whom
ALL = "all"  # all relations together
NOBODY, ROOT = -1, -2  # in place of a word: no guess, no syntactic head


@dataclass(frozen=True)
class Guess:
    """Who finds the syntactic head for one relation.

    layer, head, direction: the head chosen, its numbers in the model, and which of the two words attends.
    accuracy: the share of the `count` words with this relation whose syntactic head it finds; None where count is 0.
    offset: the fixed distance chosen as the baseline; -2 is the word two before. offset_accuracy: its share.
    """

    relation: str
    layer: int
    head: int
    direction: str
    accuracy: float | None
    offset: int
    offset_accuracy: float | None
    count: int


@dataclass(frozen=True)
class LayerTrees:
    """How much of the sentences' trees is in the maximum spanning trees of one layer's maps.

    Shares of the edges (UUAS: undirected, unlabelled attachment score). uuas: of the mean map of all its heads.
    best_head, best_head_uuas: the head chosen, and of its own map. A map and its transpose are added first.
    """

    layer: int
    uuas: float
    best_head: int
    best_head_uuas: float


@dataclass(frozen=True)
class Tally:
    """What all heads found in some sentences. Memory does not grow with their number.

    skipped: sentences that could not be read. counts: words asked for, by relation. found: of those,
    `[layer, head, direction]` that each head found. offsets: the words by the distance to their syntactic head.
    edges: pairs of words that depend on each other. tree_edges: of those, `[layer, head]` in the tree of each head;
    layer_edges: `[layer]`, of a layer's mean map. chain_edges: of those, pairs of neighbours.
    """

    sentences: int
    skipped: int
    words: int
    counts: Counter[str]
    found: dict[str, Ints]
    offsets: dict[str, Counter[int]]
    edges: int
    chain_edges: int
    tree_edges: Ints
    layer_edges: Ints

    @classmethod
    def nothing(cls, layers: int, heads: int) -> "Tally":
        """What to begin with."""
        trees, means = np.zeros((layers, heads), dtype=np.int64), np.zeros(layers, dtype=np.int64)
        return cls(0, 0, 0, Counter(), {}, {}, 0, 0, trees, means)

    def plus(self, maps: Floats, sentence: Sentence) -> "Tally":
        """And one more sentence, by its `[layer, head, word, word]` maps (`word_maps`)."""
        counts, found, offsets = Counter(self.counts), dict(self.found), dict(self.offsets)
        heads = np.array([ROOT if head is None else head for head in sentence.heads], dtype=np.int64)
        correct = strongest_words(maps) == heads
        for relation, words in asked_words(sentence).items():
            counts[relation] += len(words)
            found[relation] = found.get(relation, 0) + correct[..., words].sum(axis=-1)
            offsets[relation] = offsets.get(relation, Counter()) + Counter((heads[words] - words).tolist())
        gold, shared = tree_edges(maps, sentence)
        return Tally(
            sentences=self.sentences + 1,
            skipped=self.skipped,
            words=self.words + len(sentence),
            counts=counts,
            found=found,
            offsets=offsets,
            edges=self.edges + int(gold.sum()) // 2,
            chain_edges=self.chain_edges + int(gold.diagonal(offset=1).sum()),
            tree_edges=self.tree_edges + shared[:, :-1],
            layer_edges=self.layer_edges + shared[:, -1],
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

    The record's tokens say which word they are of (`attncli.treebank.words_of`). Weights to the pieces of a word
    add up, weights from them are averaged (Clark et al. 2019, section 4.1); from a word to itself there is 0.
    """
    merged = merge_words(record)
    words = np.flatnonzero(~np.array(merged.tokens.special))
    maps: Floats = merged.weights[..., words[:, None], words]
    maps[..., np.arange(len(words)), np.arange(len(words))] = 0
    return maps


def asked_words(sentence: Sentence) -> dict[str, list[int]]:
    """By relation, and for ALL: the words whose syntactic head is looked for. No roots and no punctuation."""
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


def tree_edges(maps: Floats, sentence: Sentence) -> tuple[npt.NDArray[np.bool_], Ints]:
    """The edges of the sentence's tree, bool `[word, word]`, and how many of them are in the tree of each head.

    That is `[layer, head]`, with the layer's mean map as one more head. Punctuation is no node here; an edge is in a
    tree or not, whichever of its two words is the head.
    """
    kept = np.flatnonzero(~np.array(sentence.punctuation))
    gold = np.zeros((len(sentence), len(sentence)), dtype=bool)
    for word, head in enumerate(sentence.heads):
        if head is not None:
            gold[word, head] = gold[head, word] = True
    gold = gold[np.ix_(kept, kept)]
    if not gold.any():
        return gold, np.zeros((maps.shape[0], maps.shape[1] + 1), dtype=np.int64)
    both = maps[..., kept[:, None], kept]
    both = both + both.swapaxes(-1, -2)
    return gold, shared_edges(spanning_trees(np.concatenate([both, both.mean(axis=1, keepdims=True)], axis=1)), gold)


def spanning_trees(maps: Floats) -> Ints:
    """Maximum spanning trees of symmetric `[..., word, word]` maps, all of them together, by Prim's algorithm.

    `[..., word]`: the word that each was joined to; the first word, where trees begin, has itself.
    """
    count = maps.shape[-1]
    flat = maps.reshape(-1, count, count)
    trees = np.arange(len(flat))
    nearest, joined = flat[:, 0].copy(), np.zeros((len(flat), count), dtype=np.int64)
    inside = np.zeros((len(flat), count), dtype=bool)
    inside[:, 0] = True
    for _ in range(count - 1):
        new = np.where(inside, -np.inf, nearest).argmax(axis=1)
        inside[trees, new] = True
        nearer = ~inside & (flat[trees, new] > nearest)
        nearest = np.where(nearer, flat[trees, new], nearest)
        joined = np.where(nearer, new[:, None], joined)
    return joined.reshape(maps.shape[:-1])


def shared_edges(trees: Ints, gold: npt.NDArray[np.bool_]) -> Ints:
    """How many edges of each of the `[..., word]` trees are edges in `gold`, bool `[word, word]`."""
    shared: Ints = gold[np.arange(1, len(gold)), trees[..., 1:]].sum(axis=-1)
    return shared


def tally(records: Iterable[tuple[AttentionRecord | None, Sentence]], counted: Tally) -> Iterator[Tally]:
    """What all heads have found after each of these sentences, going on from what is `counted`.

    A sentence without a record is counted as skipped.
    """
    for record, sentence in records:
        counted = counted.plus_skipped() if record is None else counted.plus(word_maps(record), sentence)
        yield counted


def guesses(chosen: Tally, measured: Tally) -> list[Guess]:
    """For all relations together, then for each from the most frequent down: the head and the offset that find most.

    They are chosen by what they find in `chosen` and measured in `measured`. Where that is the same, the accuracy
    is the largest of many, and other sentences will give less: the rarer the relation, the less.
    """
    return [measure(relation, chosen, measured) for relation in by_count(chosen.counts)]


def by_count(counts: Counter[str]) -> list[str]:
    """ALL first, then relations from the most frequent down; of equals in the order of the alphabet."""
    return sorted(counts, key=lambda relation: (relation != ALL, -counts[relation], relation))


def measure(relation: str, chosen: Tally, measured: Tally) -> Guess:
    layer, head, direction = best = chosen.best(relation)
    offset = chosen.best_offset(relation)
    count = measured.counts[relation]
    return Guess(
        relation=relation,
        layer=layer,
        head=head,
        direction=DIRECTIONS[direction],
        accuracy=float(measured.found[relation][best] / count) if count else None,
        offset=offset,
        offset_accuracy=measured.offsets[relation][offset] / count if count else None,
        count=count,
    )


def layer_trees(chosen: Tally, measured: Tally) -> list[LayerTrees]:
    """Of every layer; the best head is chosen and measured as in `guesses`. There is at least one edge."""
    best = chosen.tree_edges.argmax(axis=1)
    return [
        LayerTrees(
            layer=layer,
            uuas=float(measured.layer_edges[layer] / measured.edges),
            best_head=int(head),
            best_head_uuas=float(measured.tree_edges[layer, head] / measured.edges),
        )
        for layer, head in enumerate(best)
    ]
