"""Which head finds the syntactic head of a word: for each dependency relation, and as whole trees.

After Clark et al. 2019, "What Does BERT Look At?", section 4 and table 1. Of each head of the model, and in both
directions, the strongest weight between a word and the *other words* is its guess at the word's syntactic head:
weight from a word to itself, to [CLS] and to [SEP] does not count; punctuation can be guessed, as there. Roots and
punctuation are not asked for their syntactic head. The authors' code differs in four things: it counts those two
under "all" (though it has no rows for them), tries offsets from -3 to 2 only, takes the last word for an offset past
the end of the sentence, and for an English possessor takes the guess of the "'s" after it.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from attncli.analysis.tally import ALL, DIRECTIONS, Tally
from attncli.record import ModelInfo


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
            "model": asdict(self.model),
            **({} if self.kind == "encoder" else {"kind": self.kind}),
            "partial": self.partial,
            "treebank": self.treebank.document(),
            "test": None if self.test is None else self.test.document(),
            "relations": [asdict(guess) for guess in self.relations],
            "trees": {
                "edges": self.measured.edges,
                "neighbours": self.measured.chain_edges / self.measured.edges,
                "layers": [asdict(layer) for layer in self.trees],
            },
        }
