"""Count what every head does in general, over a corpus of any size.

The figures of a head are means over all tokens (`attncli.corpus.sums`): entropy, distance, and the shares of its weight
that go to patterns such as the token before. A head's label is the pattern with the largest share. The corpus is read
in shards (`attncli.corpus`), which may be counted elsewhere and are kept if a folder is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from attncli.analysis.patterns import BROAD, BROAD_BELOW, PATTERNS
from attncli.base import choices
from attncli.base.errors import RequestError
from attncli.base.files import DOCUMENTS, PICTURES
from attncli.corpus.statistics import CLEARLY, Statistics, load_statistics, record_statistics
from attncli.corpus.sums import Counting
from attncli.corpus.texts import TextFormat
from attncli.features import corpora, options
from attncli.features.corpora import CorpusFeature
from attncli.features.inputs import STDIN, notify_sinks, open_part, stdin_is_piped
from attncli.features.options import OUTPUT, TEXT, argument, choice, of_files, option
from attncli.models.opening import Opening
from attncli.record.display import model_name
from attncli.report import Column, NextCommand, Part, Report, Table, TextLine
from attncli.report.parts import in_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.text import Text

    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper

SAVED = "with --from, which takes what was saved"
OPEN_ENDED = ("entropy", "distance")  # the figures that are no shares of 1
NONE = "none"
LEGEND = (
    f"clearest head: it gives the pattern at least {BROAD_BELOW:g} of its weight, more than any other pattern, and "
    f"{CLEARLY} times the uniform share, that of a head that attends to all tokens equally. {NONE}: no head does; "
    "the largest share of any head is in brackets. Spread: the standard deviation over texts. So labelled: the "
    f"number of heads whose largest share is this one, and at least {BROAD_BELOW:g}."
)


@dataclass(eq=False)
class Stats(CorpusFeature):
    """Describe every head over a corpus.

    The figures are means over all tokens (Clark et al. 2019: over documents): entropy, strongest weight, distance, and
    the weight on the token itself, the previous, next and first one, [CLS] (cls), [SEP] (separator), all punctuation
    (theirs: . and ,), the same word elsewhere (same_word; over tokens that see it there). A table has the clearest
    head of each pattern. Ctrl-C shows the figures so far.

    \b
    Examples:
      attncli stats sample_inputs/coreference.txt sample_inputs/agreement.txt
      attncli stats --by previous -o atlas.pdf sample_inputs/paragraph.txt
      echo '{"text": "The cat sat."}' | attncli stats --field text --json -
    """

    group = "Corpora and comparisons"
    saves = (*DOCUMENTS, *PICTURES)
    saved_as = "what is counted"
    several: ClassVar[bool] = True

    files: Annotated[
        list[str] | None, argument("FILES", "Files, folders, patterns, addresses; - is stdin.", use="files")
    ] = None
    paragraphs: Annotated[
        bool, of_files(TEXT, "--paragraphs", rare=True, help="A text goes on until an empty line.")
    ] = False
    field: corpora.FieldOption = None
    skip_bad: corpora.SkipBad = False
    limit: corpora.Limit = None
    sample: corpora.SampleOption = None
    stride: Annotated[
        int | None,
        of_files(
            TEXT,
            "--stride",
            rare=True,
            metavar="N",
            help="Tokens from one window to the next, in a text longer than the model reads.",
            show_default="side by side",
        ),
    ] = None
    model: options.ModelName = "minilm"
    mask: options.MaskOption = None
    measure: options.MeasureOption = "weight"
    words: options.Words = False
    by: Annotated[choices.Figure, choice(OUTPUT, choices.Figure, "--by", help="Colour heads by ")] = "entropy"
    state: corpora.State = None
    saved: Annotated[
        Path | None,
        option(TEXT, "--from", metavar="PATH", help="Saved statistics, or a saved record; no model is run."),
    ] = None
    engine: options.EngineOption = "auto"
    without: options.Without = None
    which: options.OwnWhich = None
    workers: corpora.WorkersOption = None
    on: corpora.On = "here"
    worker_gpus: corpora.WorkerGpus = 0.0
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def report(self) -> Report:
        suffixes = {path.suffix.lower() for path in self.paths}
        if not self.for_person and suffixes.isdisjoint(PICTURES):
            self.refuse("without a table or an atlas to colour", "by")
        statistics = self._count() if self.saved is None else self._load(self.saved)
        return _report(statistics, self.by, self.saved is not None)

    def _count(self) -> Statistics:
        reading = TextFormat(
            paragraphs=self.paragraphs,
            field=self.field,
            skip_bad=self.skip_bad,
            limit=self.limit,
            sample=self.sample,
        )
        counting = Counting(self.mask, self.measure, self.words, self.which)
        where = self.where()
        if not self.files and not stdin_is_piped():
            raise RequestError("no corpus: name files with one text a line, or pipe texts in")
        files = self.files or [STDIN]
        opened = open_part(Opening(self.model, self.device, self.dtype, self.engine, self.without), self.which)
        from attncli.corpus.reducer import count_files

        notify_sinks(opened, self.which, self.measure)
        with corpora.show_counts() as show:
            return count_files(opened, files, reading, self.stride, counting, where, show)

    def _load(self, path: Path) -> Statistics:
        """Load statistics, or count the maps of a record.

        Raises RequestError if the file is neither, and for options that have no effect on it.
        """
        from attncli.record.loading import load_records

        found = None
        if path.suffix.lower() == ".json":
            try:
                found = load_statistics(path)
            except RequestError as error:
                try:
                    records = load_records(path)
                except RequestError:
                    raise error from None  # it is no record either
        else:
            records = load_records(path)
        self.refuse_use("files", SAVED)
        self.refuse_use("record", SAVED)
        if found is not None:
            self.refuse(SAVED, "words")
            return found
        return record_statistics(records, self.words)


# --- the report -----------------------------------------------------------------------------------------


def _report(statistics: Statistics, by: choices.Figure, loaded: bool) -> Report:
    strongest = max(statistics.heads, key=lambda head: head.figures["strongest" if by == "entropy" else by])
    other = {"saved": None, "model": statistics.model.name, "mask": statistics.mask} if loaded else {}
    next = {"layer": strongest.layer, "head": strongest.head, **other}
    return Report(
        [model_name(statistics.model.full_name), *statistics.parts],
        [HeadsTable(statistics, by), _clearest_table(statistics), TextLine(LEGEND)],
        statistics.document,
        lambda _: statistics.rows(),
        partial=statistics.partial and not loaded,
        next=NextCommand("run", next),
    )


def _clearest_table(statistics: Statistics) -> Table:
    """Return, for each pattern, the head that does it most clearly, and how many heads have it as their label."""
    rows = []
    for pattern in PATTERNS:
        one, top = statistics.clearest(pattern), max(statistics.heads, key=lambda head: head.figures[pattern])
        uniform = statistics.uniform((one or top).layer, pattern)
        share = (one or top).figures[pattern]
        rows.append(
            [
                pattern.replace("_", " "),
                *((NONE, f"({share:.3f})") if one is None else (one.name, f"{share:.3f}")),
                f"{uniform:.3f}",
                "" if one is None else f"{one.spread[pattern]:.3f}",
                "" if one is None else f"{one.figures['entropy']:.2f}",
                str(len(statistics.labelled(pattern))),
            ]
        )
    labelled = statistics.labelled(BROAD)
    broad = max(labelled, key=lambda head: head.figures["entropy"], default=None)
    head, entropy = (NONE, "") if broad is None else (broad.name, f"{broad.figures['entropy']:.2f}")
    rows.append([f"broad (all < {BROAD_BELOW:g})", head, "", "", "", entropy, str(len(labelled))])
    columns = [
        Column("pattern", "name"),
        Column("clearest head"),
        Column("share"),
        Column("uniform share", leaves=4),
        Column("spread", leaves=2),
        Column("entropy (nats)", leaves=1),
        Column("so labelled", leaves=3),
    ]
    return Table(columns, rows)


@dataclass(frozen=True)
class HeadsTable(Part):
    """All heads, coloured by one figure: a grid in the terminal, an atlas as a picture."""

    statistics: Statistics
    by: choices.Figure

    @property
    def top(self) -> float:
        """The value with the last colour."""
        if self.by == "entropy":
            return max(float(self.statistics.entropy_limit.max()), 1e-9)
        return float(self.statistics.figure(self.by).max()) or 1.0 if self.by in OPEN_ENDED else 1.0

    @property
    def caption(self) -> str:
        """The figure's unit and range."""
        if self.by == "entropy":
            low, high = self.statistics.entropy_limit.min(), self.statistics.entropy_limit.max()
            uniform = f"{high:.2f}" if low == high else f"{low:.2f} to {high:.2f}, by how far a layer sees,"
            return f"entropy in nats: 0 attends to one token, {uniform} to all equally"
        if self.by == "distance":
            return f"distance in tokens: up to {self.top:.1f}"
        return f"{self.by.replace('_', ' ')}, share of the weight: 0 to 1"

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.terminal import Prose, ground, head_grid

        values, top = self.statistics.figure(self.by).tolist(), self.top
        wide = 1 + max(len(in_cell(value)) for row in values for value in row)

        def cell(row: int, place: int) -> "Text":
            share = values[row][place] / top
            brightness = share**2 if self.by in OPEN_ENDED else share  # shares are as bright as weights in a map
            return Text(f"{in_cell(values[row][place]):>{wide}}", style=ground(brightness, canvas))

        layers, heads = range(self.statistics.model.layers), range(self.statistics.model.heads)
        return [Text(), Prose(self.caption), *head_grid(layers, heads, cell, canvas, (wide,))]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.features.stats.atlas import draw_atlas

        return draw_atlas(self, title, paper)


# The fields of its document (`attncli.features.document`).
FIELDS = """
### stats

model | model
kind | str? | | decoder; missing for encoder attention
mask | MaskName
measure | str | | weight, or share of norm
words | bool | | true if tokens were merged into words
texts | int | | number of texts
tokens | int | | number of tokens in them, or of words if merged
partial | bool | | true if it was interrupted and there are more texts
entropy_limit | float or [float] | nats | entropy of uniform attention; by layer if layers differ
heads | [head]
heads.label | str | | the pattern with the largest share, or broad
heads.strength | float | share of the weight | share of that pattern
heads.figures | {float} | nats, tokens, shares | means over all tokens, by the names of `--by`; `same_word` over those
    whose word occurs elsewhere
heads.spread | {float} | the figure's own | standard deviation of the means per text
alike | [{float}] | `[layer]` of nats, tokens, shares | the figures of uniform attention, by the names of `--by`
patterns | {pattern} | | the heads of each pattern, by its name

`.csv`: a row per entry of `heads`: `layer,head,label,strength`, the figures by name, and their spreads
(`entropy_spread` ...).

### pattern

A pattern over all heads.

clearest | head or null | | the clearest head; null if no head shows the pattern
labelled | int | | number of heads with this label
"""
