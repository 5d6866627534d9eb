"""Tally what heads find in the sentences of a treebank: syntactic heads by relation, and edges of trees.

For each head and in both directions, the strongest weight between a word and the other words is the head's guess at the
word's syntactic head. Weights from a word to itself and to a sink (`attncli.analysis.edges`) are ignored. A guess may
be punctuation. Roots and punctuation themselves are not tested.

Words that share a token ("du" for "de" and "le") are one unit of the maps, and a guess of the unit finds each of them.
A word whose syntactic head is in its own unit is not tested.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import numpy as np

from attncli.analysis.edges import first_is_sink
from attncli.analysis.significance import LEVEL, sign_test, wilson
from attncli.base.arrays import Bools, Floats, Ints
from attncli.corpus.treebank import TreeSentence
from attncli.record import AttentionRecord
from attncli.record.grouping import merge_words
from attncli.record.parts import HeadDocument

DIRECTIONS = ("child->head", "head->child")  # from the word that attends
ALL = "all"  # all relations together
FEWEST_WORDS = 10  # words of a relation, below which some head finds many by luck
NOBODY, ROOT = -1, -2  # in place of a word: no guess, no syntactic head

# --- tallies --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Skipped:
    """The number of sentences that were skipped for one reason, and the file and the line of the first."""

    count: int
    file: str
    line: int

    def __add__(self, later: "Skipped") -> "Skipped":
        return replace(self, count=self.count + later.count)


@dataclass(frozen=True)
class Tally:
    """Counts of what all heads find in some sentences. Tallies add up exactly; memory does not grow with sentences.

    sentences, word_count: numbers read. shared: words that share a token with another word; untested: words that share
    one with their syntactic head. respelled: sentences read by their forms, because their text has other words.
    offsets: words with a syntactic head, by relation and the distance to it. found_at: the number that each head found,
    `[layer, head, direction]`, by relation and distance. edges: pairs of units that depend on each other; tree_edges:
    edges in the tree of each head, `[layer, head]`; layer_edges: edges in the tree of a layer's mean map, `[layer]`;
    chain_edges: edges between neighbours. skips: unreadable sentences, by reason.
    """

    sentences: int
    word_count: int
    shared: int
    untested: int
    respelled: int
    offsets: dict[str, Counter[int]]
    found_at: dict[tuple[str, int], Ints]
    edges: int
    chain_edges: int
    tree_edges: Ints
    layer_edges: Ints
    skips: dict[str, Skipped] = field(default_factory=dict)

    @classmethod
    def nothing(cls, layers: int, heads: int) -> "Tally":
        """Return the tally of no sentence."""
        trees, means = np.zeros((layers, heads), dtype=np.int64), np.zeros(layers, dtype=np.int64)
        return cls(0, 0, 0, 0, 0, {}, {}, 0, 0, trees, means)

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both; the sentences of `other` come later."""
        return Tally(*(_added(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)))

    def plus(self, maps: Floats, sentence: TreeSentence) -> "Tally":
        """Return the tally with one more sentence, given its maps `[layer, head, unit, unit]` (`word_maps`)."""
        units = np.array(sentence.units, dtype=np.int64)
        heads = np.array([ROOT if head is None else units[head] for head in sentence.heads], dtype=np.int64)
        correct = strongest_words(maps)[..., units] == heads
        offsets: dict[str, Counter[int]] = {}
        found_at: dict[tuple[str, int], Ints] = {}
        tested: dict[str, list[int]] = {}  # the positions of the tested words, by relation
        untested = 0
        for word, (relation, punctuation) in enumerate(zip(sentence.relations, sentence.punctuation, strict=True)):
            if heads[word] == ROOT or punctuation:
                continue
            if heads[word] == units[word]:
                untested += 1
                continue
            for name in dict.fromkeys((ALL, relation)):
                tested.setdefault(name, []).append(word)
        for relation, places in tested.items():
            away = heads[places] - units[places]
            offsets[relation] = Counter(away.tolist())
            for offset in offsets[relation]:
                found_at[relation, offset] = correct[..., np.array(places)[away == offset]].sum(axis=-1)
        gold, found_edges = tree_edges(maps, sentence)
        edges, chain_edges = int(gold.sum()) // 2, int(gold.diagonal(offset=1).sum())
        trees, means = found_edges[:, :-1], found_edges[:, -1]
        shared = int((np.bincount(units)[units] > 1).sum())
        respelled = int(not sentence.agrees)
        return self + Tally(
            1, len(sentence), shared, untested, respelled, offsets, found_at, edges, chain_edges, trees, means
        )

    def plus_skipped(self, why: str, file: str, line: int) -> "Tally":
        """Return the tally with one more sentence that could not be read."""
        return self + replace(Tally.nothing(*self.tree_edges.shape), skips={why: Skipped(1, file, line)})

    @property
    def skipped(self) -> int:
        """The number of sentences that could not be read."""
        return sum(skipped.count for skipped in self.skips.values())

    @property
    def sentence_total(self) -> int:
        """The number of sentences."""
        return self.sentences + self.skipped

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of words with a syntactic head, by relation."""
        return Counter({relation: offsets.total() for relation, offsets in self.offsets.items()})

    @cached_property
    def found_counts(self) -> dict[str, Ints]:
        """The number of words whose syntactic head each head found, `[layer, head, direction]`."""
        found: dict[str, Ints] = {}
        for (relation, _), right in self.found_at.items():
            found[relation] = found.get(relation, 0) + right
        return found

    def best(self, relation: str) -> tuple[int, int, int]:
        """Return the layer, head and direction (its index in DIRECTIONS) that find most, the first of equals."""
        counts = self.found_counts[relation]
        layer, head, direction = np.unravel_index(int(counts.argmax()), counts.shape)
        return int(layer), int(head), int(direction)

    def best_offset(self, relation: str) -> int:
        """Return the distance that finds most; of equals the shortest, then the one to the previous word."""
        offsets = self.offsets[relation]
        return max(offsets, key=lambda offset: (offsets[offset], -abs(offset), -offset))


def word_maps(record: AttentionRecord) -> Floats:
    """Return a record's maps between units, `[layer, head, unit, unit]`, without special tokens.

    The record's tokens name their unit (`attncli.corpus.treebank.words_of`): a word, or words that share tokens.
    Weights to the pieces of a word are summed, weights from them averaged (Clark et al. 2019, section 4.1). Weights
    from a word to itself are set to 0, and so are weights to the first word if it is a sink (`first_is_sink`).
    """
    merged = merge_words(record)
    kept = np.flatnonzero(~np.array(merged.tokens.special))
    maps: Floats = merged.weights[..., kept[:, None], kept]
    maps[..., np.arange(len(kept)), np.arange(len(kept))] = 0
    if first_is_sink(merged):
        maps[..., 0] = 0
    return maps


def strongest_words(maps: Floats) -> Ints:
    """Return each head's guess at each word's syntactic head, `[layer, head, direction, word]`.

    child->head: the word that it attends to most. head->child: the word that attends to it most. NOBODY if there is no
    weight at all.
    """
    by_direction = [np.where(maps.max(axis=axis) > 0, maps.argmax(axis=axis), NOBODY) for axis in (-1, -2)]
    return np.stack(by_direction, axis=2)


def tally(read: Iterable[tuple[AttentionRecord | str, TreeSentence]], nothing: Tally) -> Iterator[Tally]:
    """Yield the tally after each sentence. read: each sentence with its record, or the reason why there is none."""
    so_far = nothing
    for record, sentence in read:
        if isinstance(record, str):
            so_far = so_far.plus_skipped(record, sentence.where.file, sentence.where.number)
        else:
            so_far = so_far.plus(word_maps(record), sentence)
        yield so_far


def _added(one: Any, other: Any) -> Any:
    """Return the sum of two counts, or of two tables of counts by key."""
    if not isinstance(one, dict):
        return one + other
    return {**one, **{key: one[key] + more if key in one else more for key, more in other.items()}}


# --- maximum spanning trees -----------------------------------------------------------------------------
# Our own, in NumPy: scipy's takes one sparse matrix at a time, and treats a weight of 0 as no edge.


def tree_edges(maps: Floats, sentence: TreeSentence) -> tuple[Bools, Ints]:
    """Return the edges of the sentence's tree, bool `[unit, unit]`, and the number of them in the tree of each head.

    The counts are `[layer, head]`, with the layer's mean map as the last head. Punctuation is not a node. The direction
    of an edge is ignored.
    """
    units, punctuation = sentence.units, sentence.punctuation
    kept = np.unique([unit for unit, mark in zip(units, punctuation, strict=True) if not mark]).astype(np.int64)
    gold = np.zeros(maps.shape[-2:], dtype=bool)
    for word, head in enumerate(sentence.heads):
        if head is not None and units[word] != units[head] and not punctuation[word] and not punctuation[head]:
            gold[units[word], units[head]] = gold[units[head], units[word]] = True
    gold = gold[np.ix_(kept, kept)]
    if not gold.any():
        return gold, np.zeros((maps.shape[0], maps.shape[1] + 1), dtype=np.int64)
    both = maps[..., kept[:, None], kept]
    both = both + both.swapaxes(-1, -2)
    trees = spanning_trees(np.concatenate([both, both.mean(axis=1, keepdims=True)], axis=1))
    return gold, gold[np.arange(1, len(gold)), trees[..., 1:]].sum(axis=-1)


def spanning_trees(maps: Floats) -> Ints:
    """Return the maximum spanning trees of symmetric `[..., word, word]` maps, by Prim's algorithm on all maps
    together.

    The result is `[..., word]`, the word that each word was joined to. The first word, the root of the search, has
    itself.
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


# --- the best heads, and whether they are luck ----------------------------------------------------------

# The verdict on a relation, by LEVEL:
# "head": the head beats the offset, beyond luck at the 5% level (McNemar's test, with Bonferroni's correction for the
#     number of candidates).
# "offset": the fixed offset finds as many or more.
# "unclear": the head finds more, but it may be luck.
# "too few": the offset misses so few words that finding all of them might be luck.
Verdict = Literal["head", "offset", "unclear", "too few"]


@dataclass(frozen=True)
class BestHead:
    """The best head for one relation.

    layer, head, direction: the chosen head, and the word that attends. accuracy: the share of the `count` words with
    this relation whose syntactic head it finds; None if count is 0. offset: the fixed distance that is the baseline; -2
    is the word two before. offset_accuracy: its share. interval: Wilson's 95% interval of the accuracy, wider if the
    head was chosen by the same words; None if count is 0. chance: an upper bound of the probability that luck makes the
    best candidate beat the offset by this much. verdict: which of the two is better.
    """

    relation: str
    layer: int
    head: int
    direction: str
    accuracy: float | None
    offset: int
    offset_accuracy: float | None
    count: int
    interval: tuple[float, float] | None
    chance: float
    verdict: Verdict


def best_heads(chosen: Tally, measured: Tally) -> list[BestHead]:
    """Return the head and the offset that find most, for all relations together, then for each from the most frequent.

    They are chosen on one tally and measured on another. If both are the same, the accuracy is the largest of many.
    Other sentences will give less, most of all for rare relations.
    """
    counts = chosen.counts
    by_count = sorted(counts, key=lambda relation: (relation != ALL, -counts[relation], relation))
    return [_measure(relation, chosen, measured) for relation in by_count]


def candidates(chosen: Tally, measured: Tally) -> int:
    """Return the number of candidates (heads x directions) from which the same words chose the measured one."""
    return 2 * chosen.tree_edges.size if chosen is measured else 1


def _measure(relation: str, chosen: Tally, measured: Tally) -> BestHead:
    layer, head, direction = best = chosen.best(relation)
    offset = chosen.best_offset(relation)
    count, of = measured.counts[relation], candidates(chosen, measured)
    found = int(measured.found_counts[relation][best]) if count else 0
    by_offset = measured.offsets[relation][offset] if count else 0
    by_both = int(measured.found_at[relation, offset][best]) if by_offset else 0
    chance = min(1.0, of * sign_test(found - by_both, by_offset - by_both))
    verdict: Verdict = "unclear" if found > by_offset else "offset"
    if of * sign_test(count - by_offset, 0) > LEVEL:  # even if the head had found all words
        verdict = "too few"
    elif chance <= LEVEL:
        verdict = "head"
    return BestHead(
        relation=relation,
        layer=layer,
        head=head,
        direction=DIRECTIONS[direction],
        accuracy=found / count if count else None,
        offset=offset,
        offset_accuracy=by_offset / count if count else None,
        count=count,
        interval=wilson(found, count, LEVEL / of) if count else None,
        chance=chance,
        verdict=verdict,
    )


class LayerEntry(HeadDocument):
    """For each layer, the head whose spanning trees have most of the tree edges (UUAS)."""

    uuas: Annotated[float, "share found by the trees of the layer's mean map", "share of the edges"]
    best_head: Annotated[int, "equal to `head`"]
    best_head_uuas: Annotated[float, "share found by the trees of this head", "share of the edges"]


def layer_trees(chosen: Tally, measured: Tally) -> list[LayerEntry]:
    """Return the share of tree edges that are in the maximum spanning trees of each layer's maps.

    UUAS is the undirected, unlabelled attachment score. uuas: with the mean map of all heads. best_head,
    best_head_uuas: the best head, chosen and measured as in `best_heads`. A map and its transpose are added first.
    """
    return [
        {
            "layer": layer,
            "uuas": float(measured.layer_edges[layer] / measured.edges),
            "best_head": head,
            "best_head_uuas": float(measured.tree_edges[layer, head] / measured.edges),
            "head": head,
        }
        for layer, head in enumerate(chosen.tree_edges.argmax(axis=1).tolist())
    ]


class TreebankDocument(TypedDict):
    """The sentences read from a treebank."""

    path: Annotated[str, "the file, or stdin"]
    sentences: Annotated[int, "number of sentences read"]
    words: Annotated[int, "number of words in them"]
    shared: Annotated[
        int, "number of words that share a token with another word, as de and le in du: one guess finds both"
    ]
    left_out: Annotated[int, "number of words that share a token with their syntactic head, which are not tested"]
    respelled: Annotated[
        int, "number of sentences whose text is made of the FORM column, because the # text comment has other words"
    ]
    skipped: Annotated[int, "number of sentences that could not be read"]


class TreebankTally(NamedTuple):
    """The tally of a treebank, and its path."""

    path: str
    tally: Tally

    def document(self) -> TreebankDocument:
        """Return the entry of the treebank in the document."""
        return {
            "path": self.path,
            "sentences": self.tally.sentences,
            "words": self.tally.word_count,
            "shared": self.tally.shared,
            "left_out": self.tally.untested,
            "respelled": self.tally.respelled,
            "skipped": self.tally.skipped,
        }

    @property
    def notes(self) -> list[str]:
        """Describe words that share tokens, and sentences that are not read from their text."""
        found, tally = [], self.tally
        if tally.shared:
            found.append(
                f"{self.path}: {tally.shared} of {tally.word_count} words share a token with another word, as in "
                '"don\'t" or "du" (de, le): a head that finds one finds both'
                + (f". {tally.untested} of them share it with their head and are omitted" if tally.untested else "")
            )
        if tally.respelled:
            many = f"{tally.respelled} sentences are read by their forms, because their"
            one = "1 sentence is read by its forms, because its"
            found.append(f"{self.path}: {one if tally.respelled == 1 else many} # text has other words")
        return found
