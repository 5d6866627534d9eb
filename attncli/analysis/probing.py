"""Which head finds the syntactic head of a word: for each dependency relation, and as whole trees.

After Clark et al. 2019, "What Does BERT Look At?", section 4 and table 1. Of each head of the model, and in both
directions, the strongest weight between a word and the *other words* is its guess at the word's syntactic head:
weight from a word to itself and to a sink (`attncli.analysis.sinks`) does not count; punctuation can be guessed, as
there. Roots and punctuation are not asked for their syntactic head. The authors' code differs in four things: it
counts those two under "all" (though it has no rows for them), tries offsets from -3 to 2 only, takes the last word for
an offset past the end of the sentence, and for an English possessor takes the guess of the "'s" after it.

The best of many heads is right surprisingly often by luck, with few words nearly always: what can be said of it is its
`Verdict`.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from attncli.analysis.luck import LEVEL, sign_test, wilson
from attncli.analysis.tally import ALL, DIRECTIONS, Tally
from attncli.record import ModelInfo

# Of a relation, by LEVEL:
# "head": the head finds more than the offset, and so much more that luck gives it to the best of that many candidates
#     once in 20 relations at the most (McNemar's test with Bonferroni's correction).
# "offset": the fixed offset finds as many or more.
# "unclear": the head finds more, but luck may have done it.
# "too few": whatever is found: so few words are left to the head by the offset that finding them all might be luck.
Verdict = Literal["head", "offset", "unclear", "too few"]


@dataclass(frozen=True)
class Guess:
    """Who finds the syntactic head for one relation.

    layer, head, direction: the head chosen, its numbers in the model, and which of the two words attends.
    accuracy: the share of the `count` words with this relation whose syntactic head it finds; None where count is 0.
    offset: the fixed distance chosen as the baseline; -2 is the word two before. offset_accuracy: its share.
    interval: between which shares the head's accuracy on all such words is, by Wilson's interval for 95%, made wider
    where the head was chosen by the same words; None where count is 0. chance: how likely luck is to make the best of
    the candidates so much better than the offset, at the most. verdict: whether it is the better one.
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


def guesses(chosen: Tally, measured: Tally) -> list[Guess]:
    """For all relations together, then for each from the most frequent down: the head and the offset that find most.

    They are chosen by what they find in `chosen` and measured in `measured`. Where that is the same, the accuracy
    is the largest of many, and other sentences will give less: the rarer the relation, the less.
    """
    return [measure(relation, chosen, measured) for relation in by_count(chosen.counts)]


def by_count(counts: Counter[str]) -> list[str]:
    """ALL first, then relations from the most frequent down; of equals in the order of the alphabet."""
    return sorted(counts, key=lambda relation: (relation != ALL, -counts[relation], relation))


def candidates(chosen: Tally, measured: Tally) -> int:
    """Of how many, each head in both directions, the one that is measured is the best by the words that measure it."""
    return 2 * chosen.tree_edges.size if chosen is measured else 1


def measure(relation: str, chosen: Tally, measured: Tally) -> Guess:
    layer, head, direction = best = chosen.best(relation)
    offset = chosen.best_offset(relation)
    count, of = measured.counts[relation], candidates(chosen, measured)
    found = int(measured.found[relation][best]) if count else 0
    by_offset = measured.offsets[relation][offset] if count else 0
    by_both = int(measured.found_at[relation, offset][best]) if by_offset else 0
    chance = min(1.0, of * sign_test(found - by_both, by_offset - by_both))
    return Guess(
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
        verdict=verdict(found, by_offset, chance, of * sign_test(count - by_offset, 0)),
    )


def verdict(found: int, by_offset: int, chance: float, least_chance: float) -> Verdict:
    """Which of the two is better; least_chance: what `chance` would be if the head had found all words."""
    if least_chance > LEVEL:
        return "too few"
    if chance <= LEVEL:
        return "head"
    return "unclear" if found > by_offset else "offset"


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


class TreebankTally(NamedTuple):
    """What all heads found in a treebank; path: where it was read from."""

    path: str
    tally: Tally

    def document(self) -> dict[str, Any]:
        """What `probe --json` prints of a treebank."""
        return {
            "path": self.path,
            "sentences": self.tally.sentences,
            "words": self.tally.word_count,
            "skipped": self.tally.skipped,
        }


@dataclass(frozen=True)
class Probed:
    """What probing a model found: in one treebank, or with heads chosen on that and measured on another (`test`).

    partial: it was interrupted, and there are more sentences. kind: whose heads they are, as in a record.
    """

    model: ModelInfo
    treebank: TreebankTally
    test: TreebankTally | None = None
    partial: bool = False
    kind: str = "encoder"

    @property
    def measured(self) -> Tally:
        """What figures are of."""
        return (self.test or self.treebank).tally

    @property
    def relations(self) -> list[Guess]:
        """As `guesses` has them."""
        return guesses(self.treebank.tally, self.measured)

    @property
    def trees(self) -> list[LayerTrees]:
        """As `layer_trees` has them."""
        return layer_trees(self.treebank.tally, self.measured)

    def document(self) -> dict[str, Any]:
        """What `probe --json` prints."""
        return {
            "model": self.model.document(),
            **({} if self.kind == "encoder" else {"kind": self.kind}),
            "partial": self.partial,
            "treebank": self.treebank.document(),
            "test": None if self.test is None else self.test.document(),
            "candidates": candidates(self.treebank.tally, self.measured),
            "relations": [relation_entry(guess) for guess in self.relations],
            "trees": {
                "edges": self.measured.edges,
                "neighbours": self.measured.chain_edges / self.measured.edges,
                "layers": [{**asdict(layer), "head": layer.best_head} for layer in self.trees],
            },
        }


def relation_entry(guess: Guess) -> dict[str, Any]:
    """A guess as a document has it: its interval by the names of its ends."""
    low, high = guess.interval or (None, None)
    return {**asdict(guess), "interval": {"low": low, "high": high}}
