"""Find the heads that attend to a word's syntactic head: for each dependency relation, and for whole trees.

After Clark et al. 2019, "What Does BERT Look At?", section 4 and table 1. For each word, a head of the model guesses a
syntactic head: the word that it attends to most or, in the other direction, the word that attends to it most (`tally`).
The authors' code differs in four things: it counts roots and punctuation under "all" (though its table has no rows for
them), tries offsets from -3 to 2 only, takes the last word for an offset past the end of the sentence, and for an
English possessor takes the guess of the "'s" after it.

The best of many heads is often right by luck, and nearly always if there are few words. So each relation has a
`Verdict`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.analysis.significance import fewest_decisive
from attncli.base.arrays import titled
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import printable
from attncli.base.typed import NotRequired
from attncli.corpus.treebank import TreebankFormat
from attncli.features import corpora, options
from attncli.features.inputs import open_model
from attncli.features.measure import measure
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.features.probe.tally import (
    ALL,
    FEWEST_LISTED,
    BestHead,
    LayerEntry,
    Tally,
    TreebankDocument,
    TreebankTally,
    Verdict,
    best_heads,
    count_candidates,
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
ABSENT = "-"  # for a relation that the measured treebank does not have
SAME = "chosen and measured on the same sentences: the best of many looks better than it is, especially with few words"


class _EngineOption(TypedDict, total=False):
    engine: options.EngineOption


class ProbeOptions(_EngineOption, corpora.CorpusOptions, total=False):
    """The options for the workers that count a treebank, and how the model computes."""


@measure(ProbeOptions, saves=(*PICTURES, *DOCUMENTS), saved_as="the result")
def probe(
    model: options.ModelOption = None,
    files: Annotated[
        str | Sequence[str],
        argument(
            "FILES",
            "A treebank in CoNLL-U: files, folders, URLs; - is stdin.",
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
    """Find the heads that attend to a word's syntactic head.

    For each dependency relation, finds the best head (Clark et al. 2019). For each word, a head of the model guesses
    the word that it attends to most (child->head), or that attends to it most (head->child). The baseline is the best
    fixed offset: -1 always guesses the previous word. Roots and punctuation are omitted. A second table shows the share
    of tree edges in the maximum spanning trees of the maps (UUAS).

    The best of many heads, chosen and measured on the same sentences, looks better than it is. The verdict says whether
    it beats the offset, whether that may be luck, or whether there are too few words. --test measures the chosen heads
    on other sentences. Ctrl-C shows the results so far. Treebanks need the extra "probe": pip install ".[probe]"
    in a clone of attncli.

    \b
    Examples:
      attncli probe sample_inputs/treebank.conllu
      attncli probe sample_inputs/treebank.conllu --limit 20 -o probe.png
      cat sample_inputs/treebank.conllu | attncli probe - --json
    """
    names = corpora.file_names(files)
    if not names:
        raise RequestError("no treebank given: name files in CoNLL-U")
    if STDIN in names and test == STDIN:
        raise RequestError("FILES and --test are both stdin: give one of them as a file")
    where = corpora.workplace_of(state, given)
    opened = open_model(model, given.get("engine"), device=given.get("device"), dtype=given.get("dtype")).in_torch()
    from attncli.features.probe.counting import probe_treebank

    reading = TreebankFormat(limit=limit, sample=sample, skip_bad=skip_bad)
    with corpora.show_counts("sentences", "words") as show:
        return probe_treebank(opened, names, None if test is None else [test], reading, where, show)


# --- the result -----------------------------------------------------------------------------------------


class _IntervalEntry(TypedDict):
    low: Annotated[float | None, "null if there is no word", "share of the words"]
    high: Annotated[float | None, "", "share of the words"]


class RelationEntry(HeadDocument):
    """The head that finds the syntactic head of the most words: for all relations together, then for each, the most
    frequent first.
    """

    relation: Annotated[str, "as in the treebank, or all"]
    direction: Annotated[str, "which word attends to which"]
    accuracy: Annotated[
        float | None, "share whose syntactic head it finds; null if there is no word", "share of the words"
    ]
    offset: Annotated[int, "the fixed distance that is right most often", "words"]
    offset_accuracy: Annotated[float | None, "share that this offset finds", "share of the words"]
    count: Annotated[int, "number of words with this relation", "words"]
    interval: Annotated[
        _IntervalEntry,
        "95% interval of the accuracy on all words of the relation (Wilson); wider if the same words chose the head",
        "share of the words",
    ]
    chance: Annotated[
        float,
        "upper bound of the probability that the best candidate beats the offset by this much through luck",
        "probability",
    ]
    verdict: Annotated[Verdict, ""]
    few: Annotated[bool, "true if there are fewer than 10 words"]
    heads: Annotated[
        dict[str, float],
        "by head: the share that it finds, in its better direction; empty if there is no word",
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
    test: Annotated[TreebankDocument | None, "the sentences on which they were measured, if others"]
    candidates: Annotated[
        int,
        "number of candidates (heads x directions) compared on the measured words; 1 if other words chose the head",
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
    def relations(self) -> list[BestHead]:
        """The best heads, as `best_heads` returns them."""
        return best_heads(self.treebank.tally, self.measured)

    def shares(self, relation: str) -> dict[str, float]:
        """Return the share of a relation's words that each head finds, by its name; empty if there is no such word.

        Each head's direction is chosen on `treebank`, and the shares are measured on `test`, if there is one.
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
            "candidates": count_candidates(self.treebank.tally, self.measured),
            "relations": [
                {
                    "relation": best.relation,
                    "layer": best.layer,
                    "head": best.head,
                    "direction": best.direction,
                    "accuracy": best.accuracy,
                    "offset": best.offset,
                    "offset_accuracy": best.offset_accuracy,
                    "count": best.count,
                    "interval": {"low": low, "high": high},
                    "chance": best.chance,
                    "verdict": best.verdict,
                    "few": best.count < FEWEST_LISTED,
                    "heads": self.shares(best.relation),
                }
                for best in self.relations
                for low, high in [best.interval or (None, None)]
            ],
            "trees": {
                "edges": self.measured.edges,
                "neighbours": self.measured.chain_edges / self.measured.edges,
                "layers": layer_trees(self.treebank.tally, self.measured),
            },
        }
        if self.kind == "encoder":
            del document["kind"]
        return document

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
                    [TextLine(f"relations with fewer than {FEWEST_LISTED} words: {few} (--json lists them)")]
                    if few
                    else []
                ),
                *map(TextLine, explain_verdicts(document["candidates"])),
                *(TextLine(printable(one)) for bank in (self.treebank, self.test) if bank for one in bank.notes),
                Table([Column("layer"), Column("UUAS of the mean map"), Column("best head"), Column("its UUAS")], rows),
                TextLine(
                    f"UUAS: the share of the {trees['edges']} tree edges, without punctuation, that are in the maximum "
                    f"spanning trees of the maps; joining neighbours gives {percent(trees['neighbours'])}"
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
    """Return a table of relations with enough words: the best head, the best fixed offset, and the verdict."""
    columns = [
        Column("relation", "name"),
        Column("head"),
        Column("direction", drop=3),
        Column("accuracy"),
        Column("interval", drop=1),
        Column("offset", drop=2),
        Column("offset's accuracy", drop=4),
        Column("words", drop=5),
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
        ABSENT if low is None or high is None else f"{100 * low:.0f}-{100 * high:.0f}%",
        f"{row['offset']:+d}",
        percent(row["offset_accuracy"]),
        str(row["count"]),
        row["verdict"],
    ]


def title_of(document: ProbeDocument, folders: bool = True) -> list[str]:
    """Return the pieces of the title; folders: whether to name the folders of the treebanks."""
    test = document["test"]
    return [
        model_shown(document["model"]),
        *([f"{document['kind']} attention"] if "kind" in document else []),
        f"heads chosen on {_sentences(document['treebank'], folders)}",
        *([] if test is None else [f"measured on {_sentences(test, folders)}"]),
        *(["PARTIAL"] if document["partial"] else []),
    ]


def explain_verdicts(candidates: int) -> list[str]:
    """Explain the interval and the verdicts. candidates: their number (`count_candidates`)."""
    best = "" if candidates == 1 else f", for the best of {candidates} (heads x directions)"
    corrected = "" if candidates == 1 else f", corrected for {candidates} candidates"
    return [
        f"interval: 95% interval of the accuracy on all words of the relation (Wilson){best}",
        f'verdict: "head" if the head beats the offset (McNemar{corrected}); "unclear" if that may be luck; "offset" '
        f'if the offset finds at least as many; "{FEW}" if the offset misses fewer than {fewest_decisive(candidates)} '
        "words, so that even a perfect head may be luck",
    ]


def _sentences(treebank: TreebankDocument, folders: bool) -> str:
    count, path = treebank["sentences"], treebank["path"] if folders else PurePath(treebank["path"]).name
    return f"{count} {'sentence' if count == 1 else 'sentences'} of {printable(path)}"


def percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.1f}%"


# --- the picture ----------------------------------------------------------------------------------------

MOST_ROWS = 60
MEANING = f"bar: best head, line: its 95% interval, mark: best offset, or the mean map; in grey: {FEW}"


def bars_of(document: ProbeDocument) -> ShareBars:
    """Draw the accuracy of each relation's best head as a bar, that of the best offset as a mark, and UUAS by layer.

    Draws at most the MOST_ROWS most frequent relations, with a note.
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
            BarBlock("trees", ["best head", "its UUAS", "", "mean map", "its UUAS", "", ""], trees),
        ],
        about=("bar", "bar", "bar", "mark", "mark", "faint", ""),
        drop_order=(5, 2, 4, 1, 3, 6),
        notes=notes,
        title=title_of(document, folders=False),
    )
