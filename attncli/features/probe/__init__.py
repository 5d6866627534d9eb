"""Find the heads that know the syntactic head of a word: for each dependency relation, and as whole trees.

After Clark et al. 2019, "What Does BERT Look At?", section 4 and table 1. In both directions, the strongest weight
between a word and the other words is a head's guess at the word's syntactic head (`tally`). The authors' code differs
in four things: it counts roots and punctuation under "all" (though it has no rows for them), tries offsets from -3 to
2 only, takes the last word for an offset past the end of the sentence, and for an English possessor takes the guess of
the "'s" after it.

The best of many heads is right surprisingly often by luck, nearly always with few words. So each relation has a
`Verdict`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.analysis.luck import fewest_words
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import printable
from attncli.base.typed import NotRequired
from attncli.corpus.treebank import TreebankFormat
from attncli.features import corpora, options
from attncli.features.inputs import check_options, open_model
from attncli.features.measure import measure
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.features.probe.tally import (
    ALL,
    FEWEST_WORDS,
    Guess,
    LayerEntry,
    Tally,
    TreebankDocument,
    TreebankTally,
    Verdict,
    candidates,
    guesses,
    layer_trees,
)
from attncli.record import ModelInfo
from attncli.record.display import model_shown
from attncli.record.parts import HeadDocument, ModelDocument
from attncli.report import Cell, Column, NextCommand, Report, Result, Table, TextLine
from attncli.report.parts import BarBlock, BarRow
from attncli.report.shares import ShareBars

if TYPE_CHECKING:
    from attncli.base.typed import Unpack

FEW = "too few"  # the verdict on a relation with too few words
NEVER = "-"  # a relation that is not in the treebank it is measured on
SAME = "measured on the same sentences: the best of many looks better than it is, most of all with few words"


class _EngineOption(TypedDict, total=False):
    engine: options.EngineOption


class ProbeOptions(_EngineOption, corpora.CorpusOptions, total=False):
    """The options that say who counts a treebank, and how a model computes."""


@measure(ProbeOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="what is probed")
def probe(
    model: options.ModelOption = None,
    files: Annotated[
        str | Sequence[str],
        argument(
            "FILES",
            "A treebank in CoNLL-U: files, folders, addresses; - is stdin.",
            kind=list[str],
            needed=True,
        ),
    ] = (),
    *,
    test: Annotated[
        str | None, option(TEXT, "--test", metavar="FILE", help="Choose heads on FILES, measure them on this one.")
    ] = None,
    limit: Annotated[
        int | None, option(TEXT, "--limit", metavar="N", min=1, help="Read the first N sentences of a treebank.")
    ] = None,
    sample: corpora.SampleOption = None,
    skip_bad: corpora.SkipBad = False,
    state: corpora.State = None,
    **given: "Unpack[ProbeOptions]",
) -> "Probed":
    """Find the heads that know the syntactic head of a word.

    For each dependency relation, as in Clark et al. 2019. A head of the model guesses the other word with the strongest
    weight: the word that a word attends to (child->head), or the word that attends to it (head->child). The baseline is
    the best fixed offset: -1 always guesses the word before. Roots and punctuation are left out. A second table shows
    how much of the trees is in maximum spanning trees of a layer's maps.

    The best of many heads, chosen and measured on the same sentences, looks better than it is. The verdict says whether
    it is better than the offset, whether that may be luck, or whether the words are too few. --test measures it on
    other sentences. Ctrl-C shows the results so far. Reading treebanks needs the extra probe: pip install ".[probe]"
    in a clone of attncli.

    \b
    Examples:
      attncli probe sample_inputs/treebank.conllu
      attncli probe sample_inputs/treebank.conllu --limit 20 -o probe.png
      cat sample_inputs/treebank.conllu | attncli probe - --json
    """
    check_options(given, ProbeOptions)
    names = corpora.file_names(files)
    if not names:
        raise RequestError("no treebank: name files in CoNLL-U")
    if STDIN in names and test == STDIN:
        raise RequestError("both FILES and --test are stdin: give one of them as a file")
    where = corpora.workplace_of(state, given)
    opened = open_model(model, given.get("engine"), device=given.get("device"), dtype=given.get("dtype")).awake()
    from attncli.features.probe.counting import probe_treebank

    reading = TreebankFormat(limit=limit, sample=sample, skip_bad=skip_bad)
    with corpora.show_counts("sentences", "words") as show:
        return probe_treebank(opened, names, None if test is None else [test], reading, where, show)


# --- the result -----------------------------------------------------------------------------------------


class _IntervalEntry(TypedDict):
    low: Annotated[float | None, "null if there is no word", "share of the words"]
    high: Annotated[float | None, "", "share of the words"]


class RelationEntry(HeadDocument):
    """All relations together, then each by falling frequency: the head that finds most words."""

    relation: Annotated[str, "as in the treebank, or all"]
    direction: Annotated[str, "which word attends to which"]
    accuracy: Annotated[
        float | None, "share whose syntactic head it finds; null if there is none", "share of the words"
    ]
    offset: Annotated[int, "the fixed distance that finds most", "words"]
    offset_accuracy: Annotated[float | None, "share that this offset finds", "share of the words"]
    count: Annotated[int, "number of words with this relation", "words"]
    interval: Annotated[
        _IntervalEntry,
        "95% interval of the accuracy on all such words (Wilson); wider if the same words chose the head",
        "share of the words",
    ]
    chance: Annotated[
        float,
        "upper bound of the probability that luck makes the best candidate that much better than the offset",
        "probability",
    ]
    verdict: Annotated[Verdict, ""]
    few: Annotated[bool, "true if there are fewer than 10 words"]
    heads: Annotated[
        dict[str, float],
        "by head: what it finds, in its better direction; empty if there is no word",
        "share of the words",
    ]


class _TreesEntry(TypedDict):
    edges: Annotated[int, "in all sentences"]
    neighbours: Annotated[float, "between neighbours", "share of the edges"]
    layers: list[LayerEntry]


class ProbeDocument(TypedDict):
    """`.csv`: a row per entry of `relations`."""

    model: ModelDocument
    kind: NotRequired[Annotated[str, "decoder; missing for encoder attention"]]
    partial: Annotated[bool, "true if it was interrupted and there are more sentences"]
    treebank: Annotated[TreebankDocument, "the sentences that chose the heads"]
    test: Annotated[TreebankDocument | None, "the sentences that measured them, if others"]
    candidates: Annotated[
        int,
        "number of heads and directions from which the same words chose the measured one; 1 if other words chose it",
    ]
    relations: list[RelationEntry]
    trees: _TreesEntry


@dataclass(frozen=True, repr=False)
class Probed(Result):
    """The result of probing a model: in one treebank, or with heads chosen on that and measured on another (`test`).

    partial: it was interrupted before the last sentence. kind: of attention, as in a record.
    """

    model: ModelInfo
    treebank: TreebankTally
    test: TreebankTally | None = None
    partial: bool = False
    kind: str = "encoder"

    def __repr__(self) -> str:
        banks = [f"{bank.tally.sentences} sentences of {bank.path}" for bank in (self.treebank, self.test) if bank]
        return titled(self, self.model.full_name, *banks, "PARTIAL" if self.partial else "")

    @property
    def measured(self) -> Tally:
        """The tally that heads are measured on."""
        return (self.test or self.treebank).tally

    @cached_property
    def relations(self) -> list[Guess]:
        """The best heads, as `guesses` returns them."""
        return guesses(self.treebank.tally, self.measured)

    def shares(self, relation: str) -> dict[str, float]:
        """Return the share of a relation's words that each head finds, by its name; empty if there is no such word.

        The direction of each head is that of the sentences that choose, the shares those of the sentences that measure.
        """
        count = self.measured.counts[relation]
        if not count:
            return {}
        directions = self.treebank.tally.found_counts[relation].argmax(axis=-1)[..., None]
        found = np.take_along_axis(self.measured.found_counts[relation], directions, axis=-1)[..., 0]
        return {f"{layer}.{head}": float(one / count) for (layer, head), one in np.ndenumerate(found)}

    def document(self) -> ProbeDocument:
        """Return what --json prints."""
        document: ProbeDocument = {
            "model": self.model.document(),
            "kind": self.kind,
            "partial": self.partial,
            "treebank": self.treebank.document(),
            "test": None if self.test is None else self.test.document(),
            "candidates": candidates(self.treebank.tally, self.measured),
            "relations": [self._relation(one) for one in self.relations],
            "trees": {
                "edges": self.measured.edges,
                "neighbours": self.measured.chain_edges / self.measured.edges,
                "layers": layer_trees(self.treebank.tally, self.measured),
            },
        }
        if self.kind == "encoder":
            del document["kind"]
        return document

    def _relation(self, guess: Guess) -> RelationEntry:
        low, high = guess.interval or (None, None)
        return {
            "relation": guess.relation,
            "layer": guess.layer,
            "head": guess.head,
            "direction": guess.direction,
            "accuracy": guess.accuracy,
            "offset": guess.offset,
            "offset_accuracy": guess.offset_accuracy,
            "count": guess.count,
            "interval": {"low": low, "high": high},
            "chance": guess.chance,
            "verdict": guess.verdict,
            "few": guess.count < FEWEST_WORDS,
            "heads": self.shares(guess.relation),
        }

    def report(self) -> Report:
        """Show the best head of each relation, the trees of each layer, and both as bars."""
        document = self.document()
        best = self.relations[0]  # of all relations together
        same = [TextLine(SAME)] if document["test"] is None else []
        trees, few = document["trees"], sum(row["few"] for row in document["relations"])
        rows = [
            [
                str(row["layer"]),
                percent(row["uuas"]),
                f"{row['layer']}.{row['best_head']}",
                percent(row["best_head_uuas"]),
            ]
            for row in trees["layers"]
        ]
        return Report(
            title_of(document),
            [
                *same,
                _relation_table(document["relations"]),
                *(
                    [TextLine(f"relations with fewer than {FEWEST_WORDS} words: {few} (--json has them)")]
                    if few
                    else []
                ),
                *map(TextLine, explain_verdicts(document["candidates"])),
                *(TextLine(printable(one)) for bank in (self.treebank, self.test) if bank for one in bank.sentences),
                Table([Column("layer"), Column("tree of the mean map"), Column("best head"), Column("its tree")], rows),
                TextLine(
                    f"trees: the share of {trees['edges']} edges without punctuation that is in maximum spanning trees "
                    f"(UUAS); joining neighbours gives {percent(trees['neighbours'])}"
                ),
            ],
            lambda: document,
            itemgetter("relations"),
            picture=[bars_of(document)],
            partial=self.partial,
            next=NextCommand("run", {"layer": best.layer, "head": best.head}),
        )


# --- the report -----------------------------------------------------------------------------------------


def _relation_table(relations: Sequence[RelationEntry]) -> Table:
    """Return a row per relation with enough words: its best head, the best fixed offset, and the better of the two."""
    columns = [
        Column("relation", "name"),
        Column("head"),
        Column("direction", leaves=3),
        Column("accuracy"),
        Column("interval", leaves=1),
        Column("offset", leaves=2),
        Column("its accuracy", leaves=4),
        Column("words", leaves=5),
        Column("verdict", "name"),
    ]
    rows = []
    for row in relations:
        if row["relation"] == ALL or not row["few"]:
            cells = [row["relation"], *relation_cells(row)]
            rows.append([Cell(cell, "faint" if row["verdict"] == FEW else "") for cell in cells])
    return Table(columns, rows)


def relation_cells(row: RelationEntry) -> list[str]:
    """Return the cells of a relation after its name."""
    low, high = row["interval"]["low"], row["interval"]["high"]
    return [
        f"{row['layer']}.{row['head']}",
        row["direction"],
        percent(row["accuracy"]),
        NEVER if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f}%",
        f"{row['offset']:+d}",
        percent(row["offset_accuracy"]),
        str(row["count"]),
        row["verdict"],
    ]


def title_of(document: ProbeDocument, folders: bool = True) -> list[str]:
    """Return the pieces of the title; folders: whether those of the treebanks' files are named."""
    test = document["test"]
    return [
        model_shown(document["model"]),
        *([f"{document['kind']} attention"] if "kind" in document else []),
        f"heads chosen on {_sentences(document['treebank'], folders)}",
        *([] if test is None else [f"measured on {_sentences(test, folders)}"]),
        *(["PARTIAL"] if document["partial"] else []),
    ]


def explain_verdicts(of: int) -> list[str]:
    """Explain the interval and the verdicts, where the same words chose among so many candidates."""
    best = "" if of == 1 else f", for the best of {of} (heads x directions)"
    lucky = "luck" if of == 1 else f"luck, among {of} candidates,"
    return [
        f"interval: 95% interval of the accuracy on all such words (Wilson){best}",
        f"verdict: head if it finds so many more than the offset that {lucky} does so in at most 1 of 20 relations "
        "(McNemar); unclear if it may be luck; offset if the offset finds as many; "
        f"{FEW} if the offset misses fewer than {fewest_words(of)} words: even a head that finds them all may be luck",
    ]


def _sentences(treebank: TreebankDocument, folders: bool) -> str:
    count, path = treebank["sentences"], treebank["path"] if folders else PurePath(treebank["path"]).name
    return f"{count} {'sentence' if count == 1 else 'sentences'} of {printable(path)}"


def percent(share: float | None) -> str:
    return NEVER if share is None else f"{100 * share:.1f}%"


# --- the picture ----------------------------------------------------------------------------------------

MOST_ROWS = 60
MEANING = f"bar: best head, line: its 95% interval, mark: best offset, or the mean map; in grey: {FEW}"


def bars_of(document: ProbeDocument) -> ShareBars:
    """Return the accuracy of each relation's best head as a bar, that of the best offset as a mark, and the trees by
    layer. Of more than MOST_ROWS relations the most frequent are drawn, with a note.
    """
    rows = []
    for one in document["relations"][:MOST_ROWS]:
        head, direction, *rest = relation_cells(one)  # head and direction share a column
        low, high = one["interval"]["low"], one["interval"]["high"]
        interval = None if low is None or high is None else (low, high)
        words = [f"{head} {direction.replace('->', ' → ')}", *rest]
        sure = one["verdict"] != FEW
        rows.append(BarRow(one["relation"], one["accuracy"], one["offset_accuracy"], words, interval, sure))
    trees = []
    for layer in document["trees"]["layers"]:
        words = [f"{layer['layer']}.{layer['best_head']}", percent(layer["best_head_uuas"])]
        words += ["", "", percent(layer["uuas"]), "", ""]
        trees.append(BarRow(f"layer {layer['layer']}", layer["best_head_uuas"], layer["uuas"], words))
    count = len(document["relations"])
    notes = [MEANING, *([SAME] if document["test"] is None else [])]
    notes += [f"the {MOST_ROWS} most frequent of {count} rows"] if count > MOST_ROWS else []
    columns = ["best head", "accuracy", "interval", "best offset", "accuracy", "words", "verdict"]
    return ShareBars(
        [
            BarBlock("relation", columns, rows),
            BarBlock("trees", ["best head", "its tree", "", "mean map", "its tree", "", ""], trees),
        ],
        about=("bar", "bar", "bar", "mark", "mark", "faint", ""),
        leaving=(5, 2, 4, 1, 3, 6),
        notes=notes,
        title=title_of(document, folders=False),
    )
