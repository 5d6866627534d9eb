"""Label the heads of a model by what they do, where measures say so, with chance beside every score.

`attncli.analysis.kinds` defines the kinds and the rule for a label. `measuring` measures on random tokens, on texts and
on needles, and asks whether the heads of a kind matter. The texts of a corpus are counted as `stats` counts them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict
from warnings import warn

import numpy as np

from attncli.analysis.kinds import KINDS, Judged, labels_of
from attncli.base.arrays import titled
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable
from attncli.base.typed import NotRequired
from attncli.features import corpora, options
from attncli.features.inputs import check_options, open_model
from attncli.features.measure import measure, no_effect
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.record.display import model_name
from attncli.record.parts import HeadDocument, ModelDocument
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import HeadLetters, signed

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.record import ModelInfo

NONE = "none"
NAMED = 3  # heads of a kind in the terminal


@measure(corpora.CorpusOptions, saved_as="kinds of heads")
def kinds(
    model: options.ModelOption = None,
    files: Annotated[
        str | Sequence[str] | None,
        argument("FILES", "Texts: files, folders, patterns, addresses.", kind=list[str] | None),
    ] = None,
    *,
    field: corpora.FieldOption = None,
    skip_bad: corpora.SkipBad = False,
    limit: corpora.Limit = None,
    sample: corpora.SampleOption = None,
    treebank: Annotated[
        str | None, option(TEXT, "--treebank", metavar="FILE", help="Find syntactic heads in this CoNLL-U file.")
    ] = None,
    top: Annotated[int, options.top("Name N heads of a kind.")] = NAMED,
    state: corpora.State = None,
    **given: "Unpack[corpora.CorpusOptions]",
) -> "Found":
    """Label heads by what they do: induction, sinks, retrieval.

    A head gets a label only where its score is far above chance, corrected for the number of heads, and above every
    head of the same network with shuffled matrices. The table shows what silencing the heads of a kind does, compared
    with random heads. FILES are texts for the positional kinds; by default the samples. `run --kinds` names
    heads as a saved file does.

    \b
    Examples:
      attncli kinds
      attncli kinds sample_inputs/paragraph.txt sample_inputs/coreference.txt
      attncli kinds --treebank sample_inputs/treebank.conllu
      attncli kinds -o kinds.json && attncli run -l 3 -H 1 --kinds kinds.json
    """
    check_options(given, corpora.CorpusOptions)
    names = corpora.file_names(files)
    device, dtype = given.get("device"), given.get("dtype")
    if not names:
        counted = {**given, "device": None, "dtype": None}
        no_effect("without FILES", field=field, skip_bad=skip_bad, limit=limit, sample=sample, state=state, **counted)
    if treebank == STDIN:
        raise RequestError("--treebank is read twice: name a file instead of -")
    where = corpora.workplace_of(state, given)
    opened = open_model(model, device=device, dtype=dtype).awake()
    from attncli.corpus.files import TREEBANKS, find_inputs
    from attncli.corpus.reducer import corpus_statistics, count_files
    from attncli.corpus.texts import TextFormat
    from attncli.corpus.usual import lines
    from attncli.features.kinds import kept, measuring

    reading = TextFormat(field=field, skip_bad=skip_bad, limit=limit, sample=sample)
    changed = bool(opened.silenced_heads)  # what is kept is of the model in its files
    path = None
    if state is None and not skip_bad and not changed:  # a folder of sums is filled, and skipped texts are named
        inputs = find_inputs(names)
        trees = find_inputs([treebank] if treebank else [], TREEBANKS)
        path = kept.kept_at(opened, [*inputs, *trees], {**asdict(reading), "texts": len(inputs)})
    day = date.today().isoformat()
    earlier = None if path is None else kept.read(path, opened)
    if path is not None and earlier is not None:
        found, day = earlier
        warn(f"measured {day} for this model and these texts, and kept in {path.parent}", Notice, stacklevel=2)
    else:
        if not names:
            statistics = corpus_statistics(opened, lines())
        else:
            with corpora.show_counts() as show:
                statistics = count_files(opened, names, reading, where=where, show=show)
        found = measuring.measure_kinds(opened, statistics, treebank, where)
        if path is not None and not found.partial:
            kept.keep(path, found, day)
    return replace(found, top=top, part=opened.kind(None), measured=day)


# --- results --------------------------------------------------------------------------------------------


class _MeasureEntry(TypedDict):
    on: Annotated[str, "what is measured, in a word"]
    least: Annotated[float, "the smallest difference from the null that gets a label", "as the score"]


class _SilencedEntry(TypedDict):
    """The effect of silencing the heads of the kind; missing if it has none."""

    output: Annotated[str, "the output, with its unit"]
    heads: Annotated[int, "how many: the clearest, no more than there are other heads"]
    effect: Annotated[float, "the output without these heads minus the output with them", "in that unit"]
    random: Annotated[list[float], "the same for as many other heads; empty if there are none", "`[draw]` in that unit"]


class _KindEntry(TypedDict):
    """All kinds."""

    kind: Annotated[str, "its name"]
    about: Annotated[str, "what is measured"]
    null: Annotated[str, "what the score is compared with"]
    why_not: NotRequired[Annotated[str, "why it can't be measured on this model; the next fields are missing then"]]
    heads: NotRequired[
        Annotated[
            list[list[int]], "the heads with this label as layer and head, the largest score first", "`[head][2]`"
        ]
    ]
    measures: NotRequired[Annotated[list[_MeasureEntry], "what has to hold together, the score's measure first"]]
    silenced: NotRequired[_SilencedEntry]


class _HeadEntry(HeadDocument):
    """All heads."""

    labels: Annotated[str, "the names of its kinds, with commas; empty if it has none"]
    score: Annotated[dict[str, float], "by kind", "shares"]
    null: Annotated[dict[str, float], "by kind: the score that chance gives", "shares"]
    low: Annotated[dict[str, float], "by kind: the lower end of the interval", "shares"]
    high: Annotated[dict[str, float], "by kind: the upper end", "shares"]
    floor: Annotated[
        dict[str, float],
        "by kind: the largest score of a head with shuffled matrices; missing if there is none",
        "shares",
    ]
    beside: Annotated[
        dict[str, float],
        "copying, and first value and later value: the length of the transformed value of the first token, and of the "
        "later token with most weight, divided by that of the others",
        "shares, ratios",
    ]
    relation: Annotated[str | None, "the relation and direction of its syntactic score; null without a treebank"]


class KindsDocument(TypedDict):
    """`.csv`: a row per entry of `heads`."""

    model: ModelDocument
    part: Annotated[str, "the part whose heads these are: encoder or decoder"]
    measured: Annotated[str, "the day, as in 2026-11-28"]
    texts: Annotated[int, "number of texts"]
    tokens: Annotated[int, "number of tokens in them"]
    partial: Annotated[bool, "true if counting the texts was interrupted"]
    kinds: list[_KindEntry]
    heads: list[_HeadEntry]


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


@dataclass(frozen=True, repr=False)
class Found(Result):
    """The kinds of a model's heads. texts, tokens, partial: of the texts. matter: by the name of a kind that has heads.

    others: the parts of an encoder-decoder that are not measured. about_treebank: sentences about how it was read. top:
    how many heads of a kind the terminal names. part: "encoder" or "decoder". measured: the day, as "2026-11-28".
    """

    model: "ModelInfo"
    texts: int
    tokens: int
    partial: bool
    kinds: Sequence[Judged]
    matter: Mapping[str, Matter]
    others: Sequence[str] = ()
    about_treebank: Sequence[str] = ()
    top: int = NAMED
    part: str = "encoder"
    measured: str = ""

    def __repr__(self) -> str:
        return titled(self, self.model.full_name, *self._facts)

    @cached_property
    def labels(self) -> dict[tuple[int, int], list[str]]:
        """The names of each labelled head's kinds."""
        return labels_of(self.kinds)

    @property
    def _facts(self) -> list[str]:
        """The pieces of a title after the model's name."""
        labelled = f"{len(self.labels)} of {self.model.layers * self.model.heads} heads have a label"
        return [labelled, f"{self.texts:,} texts", *(["PARTIAL"] if self.partial else [])]

    def document(self) -> KindsDocument:
        """Return what --json prints."""
        return {
            "model": self.model.document(),
            "part": self.part,
            "measured": self.measured,
            "texts": self.texts,
            "tokens": self.tokens,
            "partial": self.partial,
            "kinds": [self._kind(one) for one in self.kinds],
            "heads": [self._head(*head) for head in np.ndindex(self.model.layers, self.model.heads)],
        }

    def _kind(self, judged: Judged) -> _KindEntry:
        kind, matter = judged.kind, self.matter.get(judged.kind.name)
        entry: _KindEntry = {"kind": kind.name, "about": kind.about, "null": kind.null}
        if judged.why_not:
            entry["why_not"] = judged.why_not
        else:
            entry["heads"] = [list(head) for head in judged.heads]
            entry["measures"] = [{"on": measure.name, "least": measure.least} for measure in judged.measures]
        if matter is not None:
            entry["silenced"] = {
                "output": matter.output,
                "heads": matter.heads,
                "effect": matter.effect,
                "random": list(matter.random),
            }
        return entry

    def _head(self, layer: int, head: int) -> _HeadEntry:
        def by_kind(name: str) -> dict[str, float]:
            """Return a number of the head by the kinds that it is measured for."""
            arrays = {one.kind.name: getattr(one.measures[0], name) for one in self.kinds if one.measures}
            numbers = {kind: float(array[layer, head]) for kind, array in arrays.items() if array is not None}
            return {kind: number for kind, number in numbers.items() if np.isfinite(number)}

        return {
            "layer": layer,
            "head": head,
            "labels": ",".join(self.labels.get((layer, head), [])),
            "score": by_kind("score"),
            "null": by_kind("null"),
            "low": by_kind("low"),
            "high": by_kind("high"),
            "floor": by_kind("floor"),
            "beside": {name: float(numbers[layer, head]) for one in self.kinds for name, numbers in one.beside.items()},
            "relation": next((one.details[layer, head] for one in self.kinds if one.details), None),
        }

    def report(self) -> Report:
        """Show a grid of heads by their labels, and a row per kind."""
        model, labels = self.model, self.labels
        named = [kind for kind in KINDS.values() if any(kind.name in names for names in labels.values())]
        grid = HeadGrid(
            [Panel(one.kind.name, np.fmax(one.measures[0].score, 0)) for one in self.kinds if one.measures],
            range(model.layers),
            range(model.heads),
            "score",
            most=1.0,
            letters=HeadLetters(
                {head: "".join(KINDS[name].glyph for name in names) for head, names in labels.items()},
                {kind.glyph: kind.name for kind in named},
            ),
            about=[
                "score of each head, by kind",
                *(f"labelled {one.kind.name}: {_names(one.heads)}" for one in self.kinds if one.heads),
            ],
        )
        reasons: dict[str, list[str]] = {}
        for one in self.kinds:
            if one.why_not:
                reasons.setdefault(one.why_not, []).append(one.kind.name)
        rows = [_row(one, self.matter.get(one.kind.name), self.top) for one in self.kinds if one.measures]
        parts: list[Part] = [
            grid,
            Table(COLUMNS, rows),
            TextLine(LEGEND),
            *map(TextLine, [*_details(self.kinds), *_about_silencing(self.kinds, self.matter)]),
            *map(TextLine, map(printable, self.about_treebank)),
            *[TextLine(f"not measured: {', '.join(names)}: {printable(why)}") for why, names in reasons.items()],
            *[TextLine(f"not measured: {part} attention: kinds are measured in the encoder") for part in self.others],
        ]
        layer, head = next(iter(self.kinds[list(KINDS).index("induction")].heads or labels), (0, 0))
        return Report(
            [model_name(model.full_name), *self._facts],
            parts,
            self.document,
            itemgetter("heads"),
            partial=self.partial,
            next=NextCommand("run", {"layer": layer, "head": head}),
        )


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
