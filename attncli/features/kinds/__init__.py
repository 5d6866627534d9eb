"""Label the heads of a model by what they do, where measures say so, with chance beside every score.

`attncli.analysis.kinds` defines the kinds and the rule for a label. `measuring` measures on random tokens, on texts and
on needles, and asks whether the heads of a kind matter. The texts of a corpus are counted as `stats` counts them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any
from warnings import warn

import numpy as np

from attncli.analysis.kinds import KINDS, Judged, labels_of
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable
from attncli.features import corpora, options
from attncli.features.corpora import CorpusFeature
from attncli.features.feature import as_function
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.models.opening import Opening
from attncli.record.display import model_name
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Table, TextLine
from attncli.report.parts import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.text import Text

    from attncli.record import ModelInfo
    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper

NONE = "none"
NUMBERS = ("score", "null", "low", "high", "floor")  # of a head, by kind


@dataclass(eq=False)
class Kinds(CorpusFeature):
    """Label heads by what they do: induction, sinks, retrieval.

    A head gets a label only where its score is far above chance, corrected for the number of heads, and above every
    head of the same network with shuffled matrices. The table shows what silencing the heads of a kind does, compared
    with random heads. FILES are texts for the positional kinds; by default the samples. `run` names the kinds later.

    \b
    Examples:
      attncli kinds
      attncli kinds sample_inputs/paragraph.txt sample_inputs/coreference.txt
      attncli kinds --treebank sample_inputs/treebank.conllu
      attncli kinds -o kinds.csv
    """

    group = "Corpora and comparisons"
    saved_as = "kinds of heads"

    files: Annotated[list[str] | None, argument("FILES", "Texts: files, folders, patterns, addresses.")] = None
    field: corpora.FieldOption = None
    skip_bad: corpora.SkipBad = False
    limit: corpora.Limit = None
    sample: corpora.SampleOption = None
    model: options.ModelName = "minilm"
    treebank: Annotated[
        str | None, option(TEXT, "--treebank", metavar="FILE", help="Find syntactic heads in this CoNLL-U file.")
    ] = None
    top: Annotated[int, options.top("Name N heads of a kind.")] = 3
    state: corpora.State = None
    workers: corpora.WorkersOption = None
    on: corpora.On = "here"
    worker_gpus: corpora.WorkerGpus = 0.0
    device: options.DeviceOption = "auto"
    dtype: options.DtypeOption = "float32"

    def report(self) -> Report:
        if not self.files:
            self.refuse_use("files", "without FILES")
        if self.treebank == STDIN:
            raise RequestError("--treebank is read twice: name a file instead of -")
        where = self.where()
        opened = Opening(self.model, self.device, self.dtype).open()
        from attncli.corpus.files import TREEBANKS, find_inputs
        from attncli.corpus.reducer import corpus_statistics, count_files
        from attncli.corpus.texts import TextFormat
        from attncli.corpus.usual import lines
        from attncli.features.kinds import kept, measuring

        reading = TextFormat(field=self.field, skip_bad=self.skip_bad, limit=self.limit, sample=self.sample)
        path = None
        if self.state is None and not self.skip_bad:  # a folder of sums is filled, and skipped texts are named
            inputs = find_inputs(self.files or [])
            trees = find_inputs([self.treebank] if self.treebank else [], TREEBANKS)
            path = kept.kept_at(opened, [*inputs, *trees], {**asdict(reading), "texts": len(inputs)})
        day = date.today().isoformat()
        earlier = None if path is None else kept.read(path, opened)
        if path is not None and earlier is not None:
            found, day = earlier
            warn(f"measured {day} for this model and these texts, and kept in {path.parent}", Notice, stacklevel=2)
        else:
            if not self.files:
                statistics = corpus_statistics(opened, lines())
            else:
                with corpora.show_counts() as show:
                    statistics = count_files(opened, self.files, reading, where=where, show=show)
            found = measuring.measure_kinds(opened, statistics, self.treebank, where)
            if path is not None and not found.partial:
                kept.keep(path, found, day)
        return _report(found, self.top)


kinds = as_function(Kinds)


# --- results --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matter:
    """The effect of silencing the heads of a kind on an output, and that of each of several sets of other heads.

    output: in words, with its unit. heads: how many are silenced, the clearest ones: no more than there are others.
    random: empty where there are no others.
    """

    output: str
    heads: int
    effect: float
    random: Sequence[float]


@dataclass(frozen=True)
class Found:
    """The kinds of a model's heads. texts, tokens, partial: of the texts. matter: by the name of a kind that has heads.

    others: the parts of an encoder-decoder that are not measured. about_treebank: sentences about how it was read.
    """

    model: "ModelInfo"
    texts: int
    tokens: int
    partial: bool
    kinds: Sequence[Judged]
    matter: Mapping[str, Matter]
    others: Sequence[str] = ()
    about_treebank: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return the document of --json."""
        labels, kinds = labels_of(self.kinds), []
        for one in self.kinds:
            entry: dict[str, Any] = {"kind": one.kind.name, "about": one.kind.about, "null": one.kind.null}
            if one.why_not:
                entry["why_not"] = one.why_not
            else:
                entry["heads"] = [list(head) for head in one.heads]
                entry["measures"] = [{"on": measure.name, "least": measure.least} for measure in one.measures]
            if one.kind.name in self.matter:
                entry["silenced"] = asdict(self.matter[one.kind.name])
            kinds.append(entry)

        def by_kind(name: str, head: tuple[int, int]) -> dict[str, float]:
            """Return a number of a head by the kinds that it is measured for."""
            arrays = {one.kind.name: getattr(one.measures[0], name) for one in self.kinds if one.measures}
            numbers = {kind: float(array[head]) for kind, array in arrays.items() if array is not None}
            return {kind: number for kind, number in numbers.items() if np.isfinite(number)}

        return {
            "model": self.model.document(),
            "texts": self.texts,
            "tokens": self.tokens,
            "partial": self.partial,
            "kinds": kinds,
            "heads": [
                {
                    "layer": head[0],
                    "head": head[1],
                    "labels": ",".join(labels.get(head, [])),
                    **{name: by_kind(name, head) for name in NUMBERS},
                    "beside": {
                        name: float(numbers[head]) for one in self.kinds for name, numbers in one.beside.items()
                    },
                    "relation": next((one.details[head] for one in self.kinds if one.details), None),
                }
                for head in np.ndindex(self.model.layers, self.model.heads)
            ],
        }


# --- the report -----------------------------------------------------------------------------------------

COLUMNS = (
    Column("kind", "name"),
    Column("heads"),
    Column("clearest", "name", leaves=3),
    Column("score"),
    Column("interval", leaves=1),
    Column("null"),
    Column("shuffled", leaves=2),
    Column("silenced (random heads)", leaves=4),
)
LEGEND = (
    "score: of the clearest head (in brackets: the largest of any head, where no head has the label). Interval: its "
    "lower end is right for all heads and kinds together in 19 of 20 models. Null: the score that chance gives this "
    "head. Shuffled: the largest score of any head of the same network with the entries of each matrix shuffled."
)


def _report(found: Found, top: int) -> Report:
    """Report a grid of heads by their labels, and a row per kind."""
    model, labels = found.model, labels_of(found.kinds)
    title = [
        model_name(model.full_name),
        f"{len(labels)} of {model.layers * model.heads} heads have a label",
        f"{found.texts:,} texts",
        *(["PARTIAL"] if found.partial else []),
    ]
    panels = [Panel(one.kind.name, np.fmax(one.measures[0].score, 0)) for one in found.kinds if one.measures]
    grid = HeadGrid(panels, range(model.layers), range(model.heads), "score", most=1.0)
    reasons: dict[str, list[str]] = {}
    for one in found.kinds:
        if one.why_not:
            reasons.setdefault(one.why_not, []).append(one.kind.name)
    labelled = [f"labelled {one.kind.name}: {_names(one.heads)}" for one in found.kinds if one.heads]
    parts: list[Part] = [
        LabelGrid(title, grid, labels, labelled),
        Table(COLUMNS, [_row(one, found.matter.get(one.kind.name), top) for one in found.kinds if one.measures]),
        TextLine(LEGEND),
        *map(TextLine, [*_details(found.kinds), *_about_silencing(found.kinds, found.matter)]),
        *map(TextLine, map(printable, found.about_treebank)),
        *[TextLine(f"not measured: {', '.join(names)}: {printable(why)}") for why, names in reasons.items()],
        *[TextLine(f"not measured: {part} attention: kinds are measured in the encoder") for part in found.others],
    ]
    layer, head = next(iter(found.kinds[list(KINDS).index("induction")].heads or labels), (0, 0))
    return Report(
        title,
        parts,
        found.document,
        itemgetter("heads"),
        picture=[grid],
        partial=found.partial,
        next=NextCommand("run", {"layer": layer, "head": head}),
    )


def _row(judged: Judged, matter: Matter | None, top: int) -> list[str]:
    """Return the row of a kind: its clearest head, and the effects of silencing its heads."""
    measure, heads = judged.measures[0], judged.heads
    clearest = heads[0] if heads else np.unravel_index(int(np.nanargmax(measure.score)), measure.score.shape)
    score = f"{measure.score[clearest]:.2f}"
    names, silenced = _names(heads[:top]), ""
    if matter is not None:  # in brackets the least and the largest effect of random heads
        ends = dict.fromkeys(signed(end) for end in sorted(matter.random)[:: max(len(matter.random) - 1, 1)])
        silenced = signed(matter.effect) + (f" ({' to '.join(ends)})" if ends else "")
    return [
        judged.kind.name,
        str(len(heads)),
        (f"{names} ..." if len(heads) > top else names) or NONE,
        score if heads else f"({score})",
        f"{max(measure.low[clearest], 0):.2f} to {min(measure.high[clearest], 1):.2f}",
        f"{measure.null[clearest]:.2f}",
        "" if measure.floor is None else f"{measure.floor[clearest]:.2f}",
        silenced,
    ]


def _names(heads: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{layer}.{head}" for layer, head in heads)


def _details(kinds: Sequence[Judged]) -> list[str]:
    """Return what stands beside the scores of sinks, induction heads and syntactic heads."""
    of_kind, found = {one.kind.name: one for one in kinds}, []
    induction = of_kind["induction"]
    for kind, token in (("sink", "first"), ("sink elsewhere", "later")):
        if of_kind[kind].heads:
            length = np.median([of_kind[kind].beside[f"{token} value"][head] for head in of_kind[kind].heads])
            of = f"the {token} token's transformed value is {length:.2f} times as long as the others' (median)"
            found.append(f"{kind}: {of}")
    if induction.measures:
        match, copies = induction.measures
        only = [(int(layer), int(head)) for layer, head in np.argwhere(match.holds & ~copies.holds)]
        names = ", ".join("{}.{} ({:.2f})".format(*head, copies.score[head]) for head in only)
        found.append(
            "induction: a head has to attend to what followed the same token, and to raise its logit directly more "
            f"often than the null by {copies.least:g} (copying)"
            + (f"; these attend to it, and don't copy: {names}" if names else "")
        )
    if of_kind["coreference"].measures:
        found.append(f"coreference: score and null are over {of_kind['coreference'].measures[0].name}")
    syntactic = of_kind["syntactic"]
    if syntactic.heads:
        names = ", ".join(f"{layer}.{head} ({syntactic.details[layer, head]})" for layer, head in syntactic.heads)
        found.append(f"syntactic: each head by the relation that it is best in: {names}")
    return found


def _about_silencing(kinds: Sequence[Judged], matter: Mapping[str, Matter]) -> list[str]:
    """Return which output the effects of silencing are about, and of which kinds not all heads are silenced."""
    outputs: dict[str, list[str]] = {}
    for one in kinds:
        if one.kind.name in matter:
            silenced = matter[one.kind.name]
            some = f": its {silenced.heads} clearest" if silenced.heads < len(one.heads) else ""
            outputs.setdefault(silenced.output, []).append(one.kind.name + some)
    each = [f"{output} ({', '.join(names)})" for output, names in outputs.items()]
    text = (
        "silenced: the change without the heads of the kind (in brackets: without as many random other heads, three "
        "times; where there are fewer others, as many of its clearest heads are silenced)"
    )
    return [f"{text}. It is of the {'; of the '.join(each)}."] if each else []


@dataclass(frozen=True)
class LabelGrid(Part):
    """All heads with the letters of their labels in the terminal; the scores of each kind in pictures and pages.

    of_kinds: the heads of each kind in a line, which stand on the page.
    """

    title: Sequence[str]
    grid: HeadGrid
    labels: Mapping[tuple[int, int], Sequence[str]]
    of_kinds: Sequence[str]

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.terminal import Prose, head_grid

        letters = {head: "".join(KINDS[name].glyph for name in names) for head, names in self.labels.items()}
        wide = 1 + max(map(len, letters.values()), default=1)
        nothing = "·" if canvas.unicode else "."

        def cell(row: int, place: int) -> "Text":
            shown = letters.get((row, place))
            return Text(shown or nothing, style=canvas.strong if shown else canvas.faint)

        named = [kind for kind in KINDS.values() if any(kind.name in names for names in self.labels.values())]
        legend = "  ".join(f"{kind.glyph} {kind.name}" for kind in named)
        grid = head_grid(self.grid.layers, self.grid.heads, cell, canvas, (wide,))
        return [*grid, Prose(f"{legend}  {nothing} {NONE}".strip(), canvas.faint)]

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure import figure_of

        return figure_of(title, [self.grid], paper)

    def page(self) -> str:
        from attncli.report.page import page_of

        sentences = ["score of each head, by kind", *self.of_kinds]
        return page_of(self.title, [self.grid, *(TextLine(one, caption=True) for one in sentences)])


# The fields of its document (`attncli.features.document`).
FIELDS = """
### kinds

model | model
texts | int | | number of texts
tokens | int | | number of tokens in them
partial | bool | | true if counting the texts was interrupted
kinds | [object] | | all kinds
kinds.kind | str | | its name
kinds.about | str | | what is measured
kinds.null | str | | what the score is compared with
kinds.why_not | str? | | why it can't be measured on this model; the next fields are missing then
kinds.heads | [[int]]? | `[head][2]` | the heads with this label as layer and head, the largest score first
kinds.measures | [object]? | | what has to hold together, the score's measure first
kinds.measures.on | str | | what is measured, in a word
kinds.measures.least | float | as the score | the smallest difference from the null that gets a label
kinds.silenced | object? | | the effect of silencing the heads of the kind; missing if it has none
kinds.silenced.output | str | | the output, with its unit
kinds.silenced.heads | int | | how many: the clearest, no more than there are other heads
kinds.silenced.effect | float | in that unit | the output without these heads minus the output with them
kinds.silenced.random | [float] | `[draw]` in that unit | the same for as many other heads; empty if there are none
heads | [head] | | all heads
heads.labels | str | | the names of its kinds, with commas; empty if it has none
heads.score | {float} | shares | by kind
heads.null | {float} | shares | by kind: the score that chance gives
heads.low | {float} | shares | by kind: the lower end of the interval
heads.high | {float} | shares | by kind: the upper end
heads.floor | {float} | shares | by kind: the largest score of a head with shuffled matrices; missing if there is none
heads.beside | {float} | shares, ratios | copying, and first value and later value: the length of the
    transformed value of the first token, and of the later token with most weight, divided by that of the others
heads.relation | str or null | | the relation and direction of its syntactic score; null without a treebank

`.csv`: a row per entry of `heads`.
"""
