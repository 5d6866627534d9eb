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
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

from attncli.analysis.luck import fewest_words
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.base.printable import printable
from attncli.corpus.treebank import TreebankFormat
from attncli.features import corpora, options
from attncli.features.corpora import CorpusFeature
from attncli.features.feature import as_function
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.features.probe.tally import ALL, FEWEST_WORDS, Probed
from attncli.models.opening import Opening
from attncli.record.display import model_shown
from attncli.report import Cell, Column, NextCommand, Part, Report, Table, TextLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.report.paper import Paper

FEW = "too few"  # the verdict on a relation with too few words
NEVER = "-"  # a relation that is not in the treebank it is measured on
SAME = "measured on the same sentences: the best of many looks better than it is, most of all with few words"


@dataclass(eq=False)
class Probe(CorpusFeature):
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

    group = "Corpora and comparisons"
    saves = (*PICTURES, *DOCUMENTS)
    saved_as = "what is probed"

    files: Annotated[list[str], argument("FILES", "A treebank in CoNLL-U: files, folders, addresses; - is stdin.")]
    model: options.ModelName = "minilm"
    test: Annotated[
        str | None, option(TEXT, "--test", metavar="FILE", help="Choose heads on FILES, measure them on this one.")
    ] = None
    limit: Annotated[
        int | None, option(TEXT, "--limit", metavar="N", min=1, help="Read the first N sentences of a treebank.")
    ] = None
    sample: corpora.SampleOption = None
    skip_bad: corpora.SkipBad = False
    engine: options.EngineOption = "auto"
    workers: corpora.WorkersOption = None
    on: corpora.On = "here"
    worker_gpus: corpora.WorkerGpus = 0.0
    state: corpora.State = None
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def report(self) -> Report:
        if STDIN in self.files and self.test == STDIN:
            raise RequestError("both FILES and --test are stdin: give one of them as a file")
        reading = TreebankFormat(limit=self.limit, sample=self.sample, skip_bad=self.skip_bad)
        where = self.where()
        opened = Opening(self.model, self.device, self.dtype, self.engine).open()
        from attncli.features.probe.counting import probe_treebank

        test = None if self.test is None else [self.test]
        with corpora.show_counts("sentences", "words") as show:
            return _report(probe_treebank(opened, self.files, test, reading, where, show))


probe = as_function(Probe)


# --- the report -----------------------------------------------------------------------------------------


def _report(found: Probed) -> Report:
    document = found.document()
    best = found.relations[0]  # of all relations together
    same = [TextLine(SAME)] if document["test"] is None else []
    trees, few = document["trees"], sum(row["few"] for row in document["relations"])
    return Report(
        title_of(document),
        [
            *same,
            _relation_table(document),
            *([TextLine(f"relations with fewer than {FEWEST_WORDS} words: {few} (--json has them)")] if few else []),
            *map(TextLine, explain_verdicts(document)),
            *(TextLine(printable(one)) for bank in (found.treebank, found.test) if bank for one in bank.sentences),
            Table(
                [Column("layer"), Column("tree of the mean map"), Column("best head"), Column("its tree")],
                [
                    [
                        str(row["layer"]),
                        percent(row["uuas"]),
                        f"{row['layer']}.{row['best_head']}",
                        percent(row["best_head_uuas"]),
                    ]
                    for row in trees["layers"]
                ],
            ),
            TextLine(
                f"trees: the share of {trees['edges']} edges without punctuation that is in maximum spanning trees "
                f"(UUAS); joining neighbours gives {percent(trees['neighbours'])}"
            ),
            _Bars(document),
        ],
        lambda: document,
        itemgetter("relations"),
        partial=found.partial,
        next=NextCommand("run", {"layer": best.layer, "head": best.head}),
    )


def _relation_table(document: dict[str, Any]) -> Table:
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
    for row in document["relations"]:
        if row["relation"] == ALL or not row["few"]:
            cells = [row["relation"], *relation_cells(row)]
            rows.append([Cell(cell, "faint" if row["verdict"] == FEW else "") for cell in cells])
    return Table(columns, rows)


def relation_cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a relation after its name."""
    low, high = row["interval"]["low"], row["interval"]["high"]
    return [
        f"{row['layer']}.{row['head']}",
        row["direction"],
        percent(row["accuracy"]),
        NEVER if low is None else f"{100 * low:.0f}-{100 * high:.0f}%",
        f"{row['offset']:+d}",
        percent(row["offset_accuracy"]),
        str(row["count"]),
        row["verdict"],
    ]


def title_of(document: dict[str, Any], folders: bool = True) -> list[str]:
    """Return the pieces of the title; folders: whether those of the treebanks' files are named."""
    test = document["test"]
    return [
        model_shown(document["model"]),
        *([f"{document['kind']} attention"] if "kind" in document else []),
        f"heads chosen on {_sentences(document['treebank'], folders)}",
        *([] if test is None else [f"measured on {_sentences(test, folders)}"]),
        *(["PARTIAL"] if document["partial"] else []),
    ]


def explain_verdicts(document: dict[str, Any]) -> list[str]:
    """Explain the interval and the verdicts."""
    of = document["candidates"]
    best = "" if of == 1 else f", for the best of {of} (heads x directions)"
    lucky = "luck" if of == 1 else f"luck, among {of} candidates,"
    return [
        f"interval: 95% interval of the accuracy on all such words (Wilson){best}",
        f"verdict: head if it finds so many more than the offset that {lucky} does so in at most 1 of 20 relations "
        "(McNemar); unclear if it may be luck; offset if the offset finds as many; "
        f"{FEW} if the offset misses fewer than {fewest_words(of)} words: even a head that finds them all may be luck",
    ]


def _sentences(treebank: dict[str, Any], folders: bool) -> str:
    count, path = treebank["sentences"], treebank["path"] if folders else PurePath(treebank["path"]).name
    return f"{count} {'sentence' if count == 1 else 'sentences'} of {printable(path)}"


def percent(share: float | None) -> str:
    return NEVER if share is None else f"{100 * share:.1f}%"


@dataclass(frozen=True)
class _Bars(Part):
    """The relations and the trees as bars, in pictures only."""

    document: dict[str, Any]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.features.probe.picture import draw_bars

        named = title_of(self.document, folders=False) if paper.title is None else title
        return draw_bars(self.document, named, paper)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### probe

model | model
kind | str? | | decoder; missing for encoder attention
partial | bool | | true if it was interrupted and there are more sentences
treebank | treebank | | the sentences that chose the heads
test | treebank or null | | the sentences that measured them, if others
candidates | int | | number of heads and directions from which the same words chose the measured one; 1 if other
    words chose it
relations | [head] | | all relations together, then each by falling frequency: the head that finds most words
relations.relation | str | | as in the treebank, or all
relations.direction | str | | which word attends to which
relations.accuracy | float or null | share of the words | share whose syntactic head it finds; null if there is none
relations.offset | int | words | the fixed distance that finds most
relations.offset_accuracy | float or null | share of the words | share that this offset finds
relations.count | int | words | number of words with this relation
relations.interval | object | share of the words | 95% interval of the accuracy on all such words (Wilson); wider if
    the same words chose the head
relations.interval.low | float or null | share of the words | null if there is no word
relations.interval.high | float or null | share of the words
relations.chance | float | probability | upper bound of the probability that luck makes the best candidate that much
    better than the offset
relations.verdict | str | | head, offset, unclear or too few
relations.few | bool | | true if there are fewer than 10 words
relations.heads | {float} | share of the words | by head: what it finds, in its better direction; empty if there is no
    word
trees | object
trees.edges | int | | in all sentences
trees.neighbours | float | share of the edges | between neighbours
trees.layers | [head] | | for each layer the head whose spanning trees have most of the edges
trees.layers.uuas | float | share of the edges | share in the trees of the layer's mean map
trees.layers.best_head | int | | equal to `head`
trees.layers.best_head_uuas | float | share of the edges | share in the trees of this head

`.csv`: a row per entry of `relations`.

### treebank

The sentences read from a treebank.

path | str | | the file, or stdin
sentences | int | | number of sentences read
words | int | | number of words in them
shared | int | | number of words that share a token with another word, as de and le in du: one guess finds both
left_out | int | | number of words whose syntactic head is such a word, which are not asked
respelled | int | | number of sentences read by their forms, since their # text has other words
skipped | int | | number of sentences that could not be read
"""
