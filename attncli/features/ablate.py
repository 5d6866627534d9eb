"""Ablate heads, and measure how an output changes.

A head's output is replaced, before the projection that joins the heads: by 0 (Michel et al. 2019, "Are Sixteen Heads
Really Better than One?"), by its mean over tokens of other texts, or by its outputs at tokens drawn from them
(resample; Chan et al. 2022, "Causal Scrubbing"). The three answer different questions: how the output changes without
the head, without its information about this text, or with its information about another text. They disagree.

    effect = the output with heads replaced - the output of the unchanged network

With several texts, more and more heads are silenced, those with the smallest effect or importance first (Michel et al.
2019, section 4). Random orders are the control. An order that is measured on the texts that it was found on would
overfit. So every second text is used to find the order, and the others to measure the output.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np

from attncli.analysis.significance import mean_interval
from attncli.base import choices
from attncli.base.arrays import Brief, Doubles, largest_first, titled
from attncli.base.choices import check_texts
from attncli.base.errors import RequestError
from attncli.base.progress import progress
from attncli.base.typed import NotRequired
from attncli.effects.asking import (
    FROM_NOTHING,
    SCALES,
    MeasuredOutput,
    OutputDocument,
    describe_direction,
)
from attncli.features import options
from attncli.features.inputs import AskedRun, read_lines
from attncli.features.measure import measure, no_effect
from attncli.features.options import MODEL, option, some_of
from attncli.record import ModelInfo
from attncli.record.display import model_name
from attncli.record.parts import ModelDocument
from attncli.record.selection import Choice, Heads, Input, Request, Selection
from attncli.report import Column, HeadGrid, NextCommand, Panel, Part, Report, Result, Table, TextLine
from attncli.report.parts import signed

if TYPE_CHECKING:
    from attncli.base.typed import Unpack
    from attncli.effects.change import Put
    from attncli.effects.question import Question
    from attncli.models.engine import Engine

DRAWS = 5  # draws per resampled head; the effect is their mean
STEPS = 8  # numbers of silenced heads at which the output is measured
RANDOM = 5  # random orders of heads
MOST_TEXTS = 5000  # texts of a file, which already take a small model hours
LISTED = 5  # heads in the terminal
ORDERING, MEASURING = slice(0, None, 2), slice(1, None, 2)  # texts to find the orders on, and texts to measure on


@measure(options.AskedOptions, saved_as="effects")
def ablate(
    model: options.ModelOption = None,
    text: options.TextsOption = None,
    *,
    file: options.File = None,
    whole: options.Whole = False,
    way: Annotated[str | Sequence[str], some_of(MODEL, choices.Way, "--way", kind=str)] = "zero",
    reference: Annotated[
        str | Sequence[str] | None,
        option(
            MODEL,
            "--reference",
            rare=True,
            metavar="PATH",
            help="Texts for mean and resample.",
            show_default="samples",
            kind=str | None,
        ),
    ] = None,
    layer: options.Layers = None,
    head: options.HeadsOption = None,
    top: Annotated[int, options.top("List the N largest effects.")] = LISTED,
    **asked: "Unpack[options.AskedOptions]",
) -> "Ablation":
    """Measure how an output changes without a head.

    Effect: the output without a head minus the output with it, for each head, each layer and all heads. The output is
    the cosine of two texts, the probability of a label, the divergence of the prediction, or how far the last vectors
    move. Gradients give each head's importance. Several texts get means, intervals (from 3 texts on), and the effects
    of silencing more and more heads, ordered by effect, by importance and at random.

    \b
    Examples:
      attncli ablate "The cat sat on the mat." --similar-to "A cat sits on a rug."
      attncli ablate --way zero,mean -o heads.png "The cat sat on the mat."
      attncli ablate -l 5 -f sample_inputs/negation.txt
    """
    from attncli.effects.question import make_question

    ways = choices.several("way", way, choices.Way)
    if ways == ["zero"]:
        no_effect("with --way zero, which takes nothing from other texts", reference=reference)
    run = AskedRun.of(model, text, file, whole, **asked)
    if len(run.texts) > MOST_TEXTS:
        raise RequestError(
            f"{file or 'text'} has {len(run.texts):,} texts; ablate takes at most {MOST_TEXTS:,}. Cut the file with "
            f"head -n {MOST_TEXTS}."
        )
    others = read_lines(reference) if isinstance(reference, str) else reference
    if others is not None:
        check_texts("reference", others)
    engine = run.engine
    questions = (make_question(engine, one, run.asking, quiet=number > 0) for number, one in enumerate(run.texts))
    found = ablation(
        engine,
        questions,
        len(run.texts),
        ways,
        others,
        "all" if layer is None else layer,
        "all" if head is None else head,
        run.asking.mask,
    )
    return replace(found, listed=top)


# --- results --------------------------------------------------------------------------------------------

FEWEST = 3  # texts that an interval of the mean needs
COVERED = 0.96  # share of intervals that contain the mean of normal effects; for real, skewed effects about 0.95


@dataclass(frozen=True, repr=False)
class Curve(Brief):
    """The effects of silencing more and more heads.

    by: the criterion of the order, "effect", "importance" or "random". heads: the order as (layer, head), first
    silenced first; for random orders, the first draw. removed: the number of silenced heads at each step; effects: mean
    over texts `[draw, step]`.
    """

    by: str
    heads: list[tuple[int, int]]
    removed: list[int]
    effects: Doubles


class _EffectEntry(TypedDict):
    """The effects by replacement (`way`), then by layer."""

    layer: Annotated[int, "layer number in the model"]
    head: Annotated[int, "head number in its layer"]
    way: Annotated[choices.Way, "the replacement of the head's output"]
    effect: Annotated[
        float,
        "the output without the head minus the output with it; the mean over several texts",
        "in that unit",
    ]
    interval: NotRequired[
        Annotated[
            list[float],
            "the ends of a confidence interval of the mean (Student's t, about 95%); for at least 3 texts",
            "`[2]`",
        ]
    ]
    importance: NotRequired[
        Annotated[
            float,
            "mean over texts of the absolute derivative with respect to the head's gate (Michel et al. 2019); missing "
            "for a divergence or a distance",
            "in that unit",
        ]
    ]


class _LayerEntry(TypedDict):
    """All selected heads of a layer together."""

    layer: int
    way: choices.Way
    effect: Annotated[float, "", "in that unit"]


class _TogetherEntry(TypedDict):
    """All selected heads of all selected layers together."""

    way: choices.Way
    effect: Annotated[float, "", "in that unit"]


class _CurveEntry(TypedDict):
    """For several texts: the output as more and more heads are silenced."""

    by: Annotated[str, "the order: effect, importance (on every second text), or random"]
    heads: Annotated[
        list[list[int]],
        "the order as layer and head, first silenced first; for random the first draw",
        "`[head][2]`",
    ]
    removed: Annotated[list[int], "number of silenced heads", "`[step]`"]
    effects: Annotated[list[list[float]], "mean over the other texts", "`[draw][step]`"]


class AblateDocument(TypedDict):
    """`.csv`: a row per entry of `effects`."""

    model: ModelDocument
    output: OutputDocument
    texts: Annotated[int, "number of texts"]
    effects: list[_EffectEntry]
    layers: list[_LayerEntry]
    together: list[_TogetherEntry]
    curves: NotRequired[list[_CurveEntry]]


@dataclass(frozen=True)
class Ablation(Result):
    """The effects of silencing heads.

    layers, heads: numbers in the model. ways: the replacement of a head's output: "zero", "mean", "resample".
    effects: `[text, way, layer, head]`, one head at a time, NaN for heads that were not chosen; of_layers: `[text, way,
    layer]`, the chosen heads of a layer together; together: `[text, way]`, all chosen heads.
    importance: `[layer, head]`, mean over texts of |∂ output / ∂ gate|; None where it is 0 by definition.
    pairs: the heads, (layer, head), if they are not all `heads` of all `layers`.
    curves: of several texts. listed: the number of heads that the terminal lists.
    """

    model: ModelInfo
    answer: MeasuredOutput
    layers: list[int]
    heads: list[int]
    ways: list[choices.Way]
    effects: Doubles
    of_layers: Doubles
    together: Doubles
    importance: Doubles | None
    curves: Sequence[Curve] = ()
    pairs: list[tuple[int, int]] | None = None
    listed: int = LISTED

    def __repr__(self) -> str:
        texts, ways = f"{self.texts} text{'s' if self.texts > 1 else ''}", f"way {' and '.join(self.ways)}"
        return titled(self, self.model.full_name, texts, ways, str(self.choice), str(self.answer))

    @property
    def choice(self) -> Choice:
        """The heads."""
        return Choice(self.layers, self.heads, self.pairs)

    @property
    def texts(self) -> int:
        """The number of texts."""
        return len(self.effects)

    @property
    def mean(self) -> Doubles:
        """The mean effects over texts, `[way, layer, head]`."""
        return self.effects.mean(axis=0)

    def interval(self) -> tuple[Doubles, Doubles] | None:
        """Return both ends of an interval for the means, `[way, layer, head]` each; None for fewer than 3 texts.

        A distance and a divergence are at least 0, and so are both ends then.
        """
        if self.texts < FEWEST:
            return None
        low, high = mean_interval(self.effects, COVERED)
        return (np.maximum(low, 0.0) if self.answer.kind in FROM_NOTHING else low), high

    def ranked(self) -> list[tuple[int, int]]:
        """Return the heads as (layer, head), the largest effect of the first way first."""
        ranked = largest_first(self.mean[0])[: len(self.choice.each)]  # NaN is last
        return [(self.layers[layer], self.heads[head]) for layer, head in ranked]

    def document(self) -> AblateDocument:
        """Return what --json prints."""
        mean, around = self.mean, self.interval()
        effects: list[_EffectEntry] = []
        for way, (number, head_number) in product(range(len(self.ways)), self.choice.each):
            layer, head = self.layers.index(number), self.heads.index(head_number)
            entry: _EffectEntry = {
                "layer": number,
                "head": head_number,
                "way": self.ways[way],
                "effect": float(mean[way, layer, head]),
            }
            if around is not None:
                entry["interval"] = [float(side[way, layer, head]) for side in around]
            if self.importance is not None:
                entry["importance"] = float(self.importance[layer, head])
            effects.append(entry)
        document: AblateDocument = {
            "model": self.model.document(),
            "output": self.answer.document(),
            "texts": self.texts,
            "effects": effects,
            "layers": [
                {"layer": number, "way": way, "effect": float(self.of_layers[:, place, layer].mean())}
                for place, way in enumerate(self.ways)
                for layer, number in enumerate(self.layers)
            ],
            "together": [
                {"way": way, "effect": float(self.together[:, place].mean())} for place, way in enumerate(self.ways)
            ],
        }
        if self.curves:
            document["curves"] = [
                {
                    "by": curve.by,
                    "heads": [[layer, head] for layer, head in curve.heads],
                    "removed": curve.removed,
                    "effects": curve.effects.tolist(),
                }
                for curve in self.curves
            ]
        return document

    def report(self) -> Report:
        """Show a number per head and way, the heads with the largest effects, whole layers, and the curves."""
        title = [model_name(self.model.full_name), str(self.answer), f"mask {self.answer.mask}"]
        if self.texts > 1:
            title.append(f"mean of {self.texts} texts")
        panels = [Panel(way, effects, REPLACED[way]) for way, effects in zip(self.ways, self.mean, strict=True)]
        scale = SCALES[self.answer.kind]
        grid = HeadGrid(panels, self.layers, self.heads, scale, signed=self.answer.kind not in FROM_NOTHING)
        parts: list[Part] = [
            TextLine(describe_direction(self.answer.kind), caption=True),
            grid,
            heads_table(self, self.listed),
        ]
        rows = [
            [f"layer {layer}", *(signed(effect) for effect in self.of_layers[..., place].mean(axis=0))]
            for place, layer in enumerate(self.layers)
        ]
        if len(self.layers) > 1:
            rows.append(["all of these", *(signed(effect) for effect in self.together.mean(axis=0))])
        parts.append(Table([Column("all heads of"), *columns_of_ways(self.ways)], rows))
        if self.importance is not None:
            parts.append(TextLine(IMPORTANCE))
        if self.texts > 1:
            parts.append(TextLine(NO_INTERVAL if self.interval() is None else INTERVAL))
        if self.curves:
            *others, random = self.curves
            names = ["heads silenced", *(f"by {curve.by}" for curve in others)]
            names += [f"random, {name}" for name in ("mean", "least", "most")]
            rows = []
            for step, count in enumerate(random.removed):
                drawn = random.effects[:, step]
                means = [float(curve.effects[:, step].mean()) for curve in self.curves]
                rows.append([str(count), *map(signed, [*means, float(drawn.min()), float(drawn.max())])])
            parts.append(Table(list(map(Column, names)), rows))
        layer, head = self.ranked()[0]
        following = NextCommand("run", {"layer": layer, "head": head})
        return Report(title, parts, self.document, itemgetter("effects"), picture=[grid], next=following)


REPLACED = {
    "zero": "head output replaced by 0",
    "mean": "head output replaced by its mean over tokens of other texts",
    "resample": "head output replaced by its outputs at random tokens of other texts",
}
IMPORTANCE = "importance: |∂ output / ∂ gate of the head|, mean over texts (Michel et al. 2019)"
INTERVAL = (
    "from, to: a 95% confidence interval of the mean (Student's t); too narrow if a few texts have far larger effects "
    "than the others"
)
NO_INTERVAL = "no confidence interval of the mean: it needs at least 3 texts"


def heads_table(found: Ablation, top: int) -> Table:
    """Return a row per head, the largest effect of the first way first."""
    mean, around = found.mean, found.interval()
    columns = [Column("head"), *columns_of_ways(found.ways), *map(Column, ["from", "to"] if around else [])]
    columns += [] if found.importance is None else [Column("importance")]
    rows = []
    for numbers in found.ranked()[:top]:
        layer, head = found.layers.index(numbers[0]), found.heads.index(numbers[1])
        row = ["{}.{}".format(*numbers), *(signed(effects[layer, head]) for effects in mean)]
        if around:
            row += [signed(side[0, layer, head]) for side in around]
        if found.importance is not None:
            row.append(f"{found.importance[layer, head]:.2g}")
        rows.append(row)
    return Table(columns, rows)


def columns_of_ways(ways: Sequence[str]) -> list[Column]:
    """Return a column per way of silencing: "effect" for one way, else their names."""
    return [Column(f"effect, {way}" if len(ways) > 1 else "effect") for way in ways]


# --- what is computed -----------------------------------------------------------------------------------


def ablation(
    model: "Engine",
    questions: "Iterable[Question]",
    count: int = 1,
    ways: Sequence[choices.Way] = ("zero",),
    reference: Sequence[str] | None = None,
    layers: Selection = "all",
    heads: Heads = "all",
    mask: str | None = None,
) -> Ablation:
    """Measure the effects on `count` questions of one kind, under this mask.

    The other parameters are those of `ablate`.

    The importance of a head is |∂ output / ∂ gate| (Michel et al. 2019, section 2.3, equation 3, with the output in
    place of their loss). A divergence or a distance has its minimum at the unchanged network, where its derivative is
    0.
    """
    from attncli.effects.change import head_outputs, put, silence, usual_outputs
    from attncli.effects.gradients import gate_gradients

    choice, mask = Request(layers, heads).choose(model.select_layers, model.heads), model.usual_mask(mask)
    each = choice.each
    of_layers = [[head for head in each if head[0] == layer] for layer in choice.layers]
    sets = [*([head] for head in each), *of_layers, each]
    if set(ways) <= {"zero"}:
        outputs = None
    elif reference is None:
        outputs = usual_outputs(model, mask)
    else:
        outputs = head_outputs(model, model.tokenizer.encode_each(map(Input, reference), None), mask)

    def changes_by(way: choices.Way, tokens: int) -> "list[Put]":
        """Return the changes that replace each set's outputs, grouped by set."""
        if outputs is None or way == "zero":
            return [silence(some) for some in sets]
        sources = [outputs.means] if way == "mean" else [outputs.draw(tokens, draw) for draw in range(DRAWS)]
        return [put(some, source) for some in sets for source in sources]

    measured: list[Question] = []
    effects, slopes = [], []
    changes = len(sets) * sum(DRAWS if way == "resample" else 1 for way in ways)
    with progress(count * changes, "changes") as advance:
        for one in questions:
            tokens = max(len(text.tokens) for text in one.texts)
            by_way = [one.effects(changes_by(way, tokens), advance=advance) for way in ways]
            effects.append([found.reshape(len(sets), -1).mean(axis=1) for found in by_way])
            if one.kind not in FROM_NOTHING:
                slopes.append(gate_gradients(one).abs().cpu().numpy()[np.ix_(choice.layers, choice.heads)])
            measured.append(one)
    if not measured:
        raise RequestError("there is no text to measure on: give TEXT or -f FILE")
    by_set, about = np.array(effects), measured[0]  # [text, way, set]
    found = Ablation(
        model=model.info,
        answer=MeasuredOutput(about.kind, about.about, float(np.mean([one.value for one in measured])), mask),
        layers=choice.layers,
        heads=choice.heads,
        ways=list(ways),
        effects=choice.spread(by_set[..., : len(each)]),
        of_layers=by_set[..., len(each) : -1],
        together=by_set[..., -1],
        importance=np.mean(slopes, axis=0) if slopes else None,
        pairs=choice.pairs,
    )
    if len(measured) == 1:
        return found
    ordering = np.mean(slopes[ORDERING], axis=0) if slopes else None
    return replace(found, curves=measure_curves(measured[MEASURING], found, ordering))


def measure_curves(questions: "Sequence[Question]", found: Ablation, importance: Doubles | None) -> list[Curve]:
    """Silence more and more heads: in the order of their effects, in the order of their importance, in random orders.

    questions: the texts to measure. found: the effects on all texts. importance: `[layer, head]`, on the texts that
    make the order.
    """
    from attncli.effects.change import silence

    every, places = found.choice.each, found.choice.places
    sizes = {"effect": np.abs(found.effects[ORDERING, 0].mean(axis=0))}
    if importance is not None:
        sizes["importance"] = importance
    orders = {by: [[every[place] for place in np.argsort(size[places], kind="stable")]] for by, size in sizes.items()}
    draw = np.random.default_rng(0)
    orders["random"] = [[every[place] for place in draw.permutation(len(every))] for _ in range(RANDOM)]
    removed = sorted({round(len(every) * step / STEPS) for step in range(1, STEPS + 1)} - {0})
    return [
        Curve(
            by,
            list(drawn[0]),
            removed,
            np.array(
                [
                    np.mean([one.effects([silence(order[:count]) for count in removed]) for one in questions], axis=0)
                    for order in drawn
                ]
            ),
        )
        for by, drawn in orders.items()
    ]
