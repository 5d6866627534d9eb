"""Label the heads of a model by what they do, with every score compared with chance.

`attncli.analysis.kinds` defines the kinds and the rule for a label. `measuring` measures on random tokens, on texts and
on needles, and tests whether the heads of a kind matter. The texts of a corpus are counted as in `stats`.
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
from attncli.features.inputs import open_model
from attncli.features.measure import measure, no_effect
from attncli.features.options import STDIN, TEXT, argument, option
from attncli.models.parts import self_attention_kind
from attncli.record.display import model_name
from attncli.record.parts import HeadDocument, ModelDocument
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import HeadLetters, signed

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.record import ModelInfo

NAMED = 3  # heads of a kind in the terminal


@measure(corpora.CorpusOptions, saved_as="kinds of heads")
def kinds(
    model: options.ModelOption = None,
    files: Annotated[
        str | Sequence[str] | None,
        argument("FILES", "Texts: files, folders, globs, URLs.", kind=list[str] | None),
    ] = None,
    *,
    field: corpora.FieldOption = None,
    skip_bad: corpora.SkipBad = False,
    limit: corpora.Limit = None,
    sample: corpora.SampleOption = None,
    treebank: Annotated[
        str | None, option(TEXT, "--treebank", metavar="FILE", help="A CoNLL-U file, to find heads that follow syntax.")
    ] = None,
    top: Annotated[int, options.top("Name N heads per kind.")] = NAMED,
    state: corpora.State = None,
    **given: "Unpack[corpora.CorpusOptions]",
) -> "HeadKinds":
    """Label heads by what they do: induction, sinks, retrieval.

    A head gets a label only if its score is far above chance, corrected for the number of heads, and above the scores
    of all heads with shuffled matrices. The table shows the effect of silencing the heads of a kind, and of silencing
    random heads. FILES are texts for the positional kinds, by default the samples. `run --kinds FILE` shows the
    labels of a saved file.

    \b
    Examples:
      attncli kinds
      attncli kinds sample_inputs/paragraph.txt sample_inputs/coreference.txt
      attncli kinds --treebank sample_inputs/treebank.conllu
      attncli kinds -o kinds.json && attncli run -l 3 -H 1 --kinds kinds.json
    """
    names = corpora.file_names(files)
    device, dtype = given.get("device"), given.get("dtype")
    if not names:
        counted = {**given, "device": None, "dtype": None}
        no_effect("without FILES", field=field, skip_bad=skip_bad, limit=limit, sample=sample, state=state, **counted)
    if treebank == STDIN:
        raise RequestError("--treebank is read twice: name a file instead of -")
    where = corpora.workplace_of(state, given)
    opened = open_model(model, device=device, dtype=dtype).in_torch()
    from attncli.corpus.files import TREEBANKS, find_inputs
    from attncli.corpus.reducer import corpus_statistics, count_files
    from attncli.corpus.texts import TextFormat
    from attncli.corpus.usual import lines
    from attncli.features.kinds import kept, measuring

    reading = TextFormat(field=field, skip_bad=skip_bad, limit=limit, sample=sample)
    changed = bool(opened.silenced_heads)  # the cache is for the unchanged model
    path = None
    if state is None and not skip_bad and not changed:  # --state must be filled, and skipped texts reported
        inputs = find_inputs(names)
        trees = find_inputs([treebank] if treebank else [], TREEBANKS)
        path = kept.cache_path(opened, [*inputs, *trees], {**asdict(reading), "texts": len(inputs)})
    day = date.today().isoformat()
    earlier = None if path is None else kept.read(path, opened)
    if path is not None and earlier is not None:
        found, day = earlier
        warn(f"read from the cache ({path.parent}): measured {day} on this model and these texts", Notice, stacklevel=2)
    else:
        if not names:
            statistics = corpus_statistics(opened, lines())
        else:
            with corpora.show_counts() as show:
                statistics = count_files(opened, names, reading, where=where, show=show)
        found = measuring.measure_kinds(opened, statistics, treebank, where)
        if path is not None and not found.partial:
            kept.keep(path, found, day)
    return replace(found, top=top, part=self_attention_kind(opened, None), measured=day)


# --- results --------------------------------------------------------------------------------------------


class _MeasureEntry(TypedDict):
    on: Annotated[str, "the name of the measure"]
    least: Annotated[float, "the smallest difference from the null that gets a label", "as the score"]


class _SilencedEntry(TypedDict):
    """The effect of silencing the heads of the kind; missing if it has none."""

    output: Annotated[str, "the output, with its unit"]
    heads: Annotated[int, "number of silenced heads: the clearest, at most as many as there are other heads"]
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
    measures: NotRequired[
        Annotated[list[_MeasureEntry], "the measures that must all hold; the score is that of the first"]
    ]
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
        "further numbers by name: copying; first value, the length of the transformed value of the first token, "
        "divided by that of the other tokens; later value, the same for the later token with the most weight",
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
class SilencingEffect:
    """The effect of silencing the heads of a kind on an output, and that of each of several sets of other heads.

    output: in words, with its unit. heads: the number of silenced heads, the clearest first; at most as many as remain
    for the control. random: the effects of sets of other heads; empty if there are none.
    """

    output: str
    heads: int
    effect: float
    random: Sequence[float]


@dataclass(frozen=True, repr=False)
class HeadKinds(Result):
    """The kinds of a model's heads.

    texts, tokens, partial: of the corpus. silencing: the effects of silencing, by kind, for kinds that have heads.
    others: the parts of an encoder-decoder that are not measured. about_treebank: notes on reading it. top: the number
    of heads of a kind that the terminal names. part: "encoder" or "decoder". measured: the day, as "2026-11-28".
    """

    model: "ModelInfo"
    texts: int
    tokens: int
    partial: bool
    kinds: Sequence[Judged]
    silencing: Mapping[str, SilencingEffect]
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
        kinds: list[_KindEntry] = []
        for judged in self.kinds:
            kind, silencing = judged.kind, self.silencing.get(judged.kind.name)
            entry: _KindEntry = {"kind": kind.name, "about": kind.about, "null": kind.null}
            if judged.why_not:
                entry["why_not"] = judged.why_not
            else:
                entry["heads"] = [list(head) for head in judged.heads]
                entry["measures"] = [{"on": measure.name, "least": measure.least} for measure in judged.measures]
            if silencing is not None:
                entry["silenced"] = {
                    "output": silencing.output,
                    "heads": silencing.heads,
                    "effect": silencing.effect,
                    "random": list(silencing.random),
                }
            kinds.append(entry)
        return {
            "model": self.model.document(),
            "part": self.part,
            "measured": self.measured,
            "texts": self.texts,
            "tokens": self.tokens,
            "partial": self.partial,
            "kinds": kinds,
            "heads": [self._head(*head) for head in np.ndindex(self.model.layers, self.model.heads)],
        }

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
            [
                Panel(one.kind.name, np.fmax(one.measures[0].score - one.measures[0].null, 0), marked=one.heads)
                for one in self.kinds
                if one.measures
            ],
            range(model.layers),
            range(model.heads),
            "score above chance",
            most=1.0,
            letters=HeadLetters(
                {head: "".join(KINDS[name].glyph for name in names) for head, names in labels.items()},
                {kind.glyph: kind.name for kind in named},
            ),
            about=[
                "score of each head above chance, by kind; an orange frame marks the labelled heads",
                *(f"labelled {one.kind.name}: {_names(one.heads)}" for one in self.kinds if one.heads),
            ],
        )
        reasons: dict[str, list[str]] = {}
        for one in self.kinds:
            if one.why_not:
                reasons.setdefault(one.why_not, []).append(one.kind.name)
        rows = [_row(one, self.silencing.get(one.kind.name), self.top) for one in self.kinds if one.heads]
        without = [one.kind.name for one in self.kinds if one.measures and not one.heads]
        parts: list[Part] = [
            grid,
            *([Table(COLUMNS, rows), TextLine(LEGEND)] if rows else []),
            *([TextLine(f"no head has these labels: {', '.join(without)}")] if without else []),
            *map(TextLine, [*_details(self.kinds), *_about_silencing(self.kinds, self.silencing)]),
            *map(TextLine, map(printable, self.about_treebank)),
            *[
                TextLine(f"not measured: {', '.join(names)}, because {printable(why)}")
                for why, names in reasons.items()
            ],
            *[TextLine(f"not measured: {part} attention (kinds are measured in the encoder)") for part in self.others],
        ]
        counts = ", ".join(f"{len(one.heads)} {one.kind.name}" for one in self.kinds if one.heads)
        layer, head = next(iter(self.kinds[list(KINDS).index("induction")].heads or labels), (0, 0))
        return Report(
            [model_name(model.full_name), *self._facts],
            parts,
            self.document,
            itemgetter("heads"),
            partial=self.partial,
            verdict=f"{self._facts[0]}{counts and f': {counts}'}",
            next=NextCommand("run", {"layer": layer, "head": head}),
        )


# --- the report -----------------------------------------------------------------------------------------

COLUMNS = (
    Column("kind", "name"),
    Column("heads"),
    Column("clearest", "name", drop=3),
    Column("score"),
    Column("interval", drop=1),
    Column("null"),
    Column("shuffled", drop=2),
    Column("silenced (random heads)", drop=4),
)
LEGEND = (
    "score: of the clearest head. Interval: its lower ends hold for all heads and kinds together with 95% confidence. "
    "Null: the score that chance gives this head. Shuffled: the largest score of any head of the same network with the "
    "entries of each matrix shuffled."
)


def _row(judged: Judged, silencing: SilencingEffect | None, top: int) -> list[str]:
    """Return the row of a kind: its clearest head, and the effects of silencing its heads."""
    measure, heads = judged.measures[0], judged.heads
    clearest, names, silenced = heads[0], _names(heads[:top]), ""
    if silencing is not None:  # in brackets the smallest and the largest effect of random heads
        ends = dict.fromkeys(signed(end) for end in sorted(silencing.random)[:: max(len(silencing.random) - 1, 1)])
        silenced = signed(silencing.effect) + (f" ({' to '.join(ends)})" if ends else "")
    return [
        judged.kind.name,
        str(len(heads)),
        f"{names} ..." if len(heads) > top else names,
        f"{measure.score[clearest]:.2f}",
        f"{max(measure.low[clearest], 0):.2f} to {min(measure.high[clearest], 1):.2f}",
        f"{measure.null[clearest]:.2f}",
        "" if measure.floor is None else f"{measure.floor[clearest]:.2f}",
        silenced,
    ]


def _names(heads: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{layer}.{head}" for layer, head in heads)


def _details(kinds: Sequence[Judged]) -> list[str]:
    """Return notes on the scores of sinks, induction heads and syntactic heads."""
    of_kind, found = {one.kind.name: one for one in kinds}, []
    induction = of_kind["induction"]
    for kind, token in (("sink", "first"), ("sink elsewhere", "later")):
        if of_kind[kind].heads:
            length = np.median([of_kind[kind].beside[f"{token} value"][head] for head in of_kind[kind].heads])
            of = f"the {token} token's transformed value is {length:.2f} times as long as the other tokens' (median)"
            found.append(f"{kind}: {of}")
    if induction.measures:
        match, copies = induction.measures
        only = [(int(layer), int(head)) for layer, head in np.argwhere(match.holds & ~copies.holds)]
        names = ", ".join("{}.{} ({:.2f})".format(*head, copies.score[head]) for head in only)
        found.append(
            "induction: a head must attend to the token that followed an earlier copy of the query, and directly raise "
            f"its logit more often than the null by {copies.least:g} (copying)"
            + (f"; these attend without copying: {names}" if names else "")
        )
    if of_kind["coreference"].measures:
        found.append(f"coreference: score and null are over {of_kind['coreference'].measures[0].name}")
    syntactic = of_kind["syntactic"]
    if syntactic.heads:
        names = ", ".join(f"{layer}.{head} ({syntactic.details[layer, head]})" for layer, head in syntactic.heads)
        found.append(f"syntactic: each head with its best relation: {names}")
    return found


def _about_silencing(kinds: Sequence[Judged], silencing: Mapping[str, SilencingEffect]) -> list[str]:
    """Return the outputs that silencing was measured on, and how many heads of each kind were silenced."""
    outputs: dict[str, list[str]] = {}
    for one in kinds:
        if one.kind.name in silencing:
            silenced = silencing[one.kind.name]
            some = f" (its {silenced.heads} clearest heads)" if silenced.heads < len(one.heads) else ""
            outputs.setdefault(silenced.output, []).append(one.kind.name + some)
    each = [f"{output}, for {', '.join(names)}" for output, names in outputs.items()]
    text = (
        "silenced: the change in an output without the heads of the kind. In brackets: without as many random other "
        "heads, in three draws. If there are fewer other heads, only that many of the clearest heads are silenced"
    )
    return [f"{text}. Measured on the {' and on the '.join(each)}."] if each else []
