"""Ablation: what an output does when heads are put out of the way.

A head's output is replaced, before the projection that joins the heads: by 0 (Michel et al. 2019), by its mean over
tokens of other texts, or by what it gives at tokens drawn from them (resample; Chan et al. 2022, "Causal Scrubbing").
The three ask different things: what is left without any output of the head, without what it says of this text, and
with what it says of another text. They disagree, and which is meant has to be said.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from attncli.analysis.effects import Ablation, Answer
from attncli.base import choices
from attncli.base.arguments import check_texts, describe
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.base.progress import Progress, silent
from attncli.effects.asking import Asking, merge_asking, question
from attncli.effects.changes import Head, put, silence
from attncli.effects.gradients import gate_gradients
from attncli.effects.questions import Question
from attncli.effects.reference import Reference, reference, usual_reference
from attncli.effects.removal import MEASURING, ORDERING, curves, held, orders
from attncli.effects.rows import Rows, joined
from attncli.models.engine import Engine
from attncli.models.tapped import TappedModel, require_tapped
from attncli.record import ModelInfo
from attncli.record.request import Input
from attncli.record.selection import Selection, select

DRAWS = 5  # of a resampled head: their effects are averaged


@dataclass(frozen=True)
class Ways:
    """What is put in place of heads' outputs.

    names: of `choices.Way`, or one text with commas. texts: others, from which "mean" and "resample" take outputs.

    Raises RequestError for a way that there is not, and TypeError for what is no name.
    """

    names: str | Sequence[str] = ("zero",)
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, str):
            object.__setattr__(self, "names", choices.several("way", self.names, choices.Way))
        if not isinstance(self.names, Sequence):
            names = ", ".join(choices.names(choices.Way))
            raise TypeError(
                f"ways is {describe(self.names)}: give one of {names}, several with commas, or attncli.Ways"
            )
        for name in self.names:
            choices.check("way", name, choices.Way)
        if self.texts is not None:
            check_texts("reference", self.texts)

    def reference(self, model: TappedModel, mask: str | None) -> Reference | None:
        """What "mean" and "resample" put there; None for "zero" alone."""
        if set(self.names) <= {"zero"}:
            return None
        if self.texts is None:
            return usual_reference(model, mask)
        return reference(model, model.tokenize(map(Input, self.texts), None), mask)


def ablate(
    model: Engine,
    texts: str | Sequence[str],
    ways: Ways | str | Sequence[str] = "zero",
    layers: Selection = "all",
    heads: Selection = "all",
    asking: Asking | None = None,
    progress: Progress = silent,
    *,
    pair: str | None = None,
    similar_to: str | None = None,
    target: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    output: str | None = None,
    mask: str | None = None,
    which: str | None = None,
    reference: Sequence[str] | None = None,
) -> Ablation:
    """The effect of each head by itself, of these heads of each layer at once, and of all of them, on each text; of
    several texts the order too in which heads can go (`attncli.effects.removal`).

    ways: of zero, mean and resample, what to put in place of heads' outputs; several with commas, or as `Ways`.
    reference: other texts, from which mean and resample take outputs.
    asking: what to ask, as an `Asking`; or say so by its fields, as in similar_to="Another text." and target="it".
    progress: is told of every text.

    Raises RequestError for a layer, head or way that there is not, TypeError for arguments of other types, and as
    `question` does.
    """
    asking = merge_asking(
        asking, pair=pair, similar_to=similar_to, target=target, at=at, kind=kind, output=output, mask=mask, which=which
    )
    model = require_tapped(model, asking.which)
    if not isinstance(ways, Ways):
        ways = Ways(ways, reference)
    elif reference is not None:
        raise TypeError("reference is a field of ways too: give Ways(names, texts) or reference=..., not both")
    if reference is not None and set(ways.names) == {"zero"}:
        raise RequestError('reference has no part in ways="zero", which takes nothing from other texts: leave it out')
    of_texts = [texts] if isinstance(texts, str) else texts
    check_texts("texts", of_texts, "give a str, or a list of them")
    asked = (question(model, text, asking) for text in of_texts)
    with progress(len(of_texts), "texts") as advance:
        return ablation(model, asked, ways, layers, heads, asking.mask, advance)


def ablation(
    model: TappedModel,
    questions: Iterable[Question],
    ways: Ways = Ways(),
    layers: Selection = "all",
    heads: Selection = "all",
    mask: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Ablation:
    """The same of questions that are asked already, all of one kind, under this mask. advance: called after each."""
    silenced, mask = Silenced.of(model, ways, layers, heads), model.usual_mask(mask)
    other = ways.reference(model, mask)
    asked, rows = [], []
    for one in questions:
        rows.append(silenced.row(one, other))
        asked.append(one)
        advance()
    if not asked:
        raise RequestError("there is no text to ask about")
    texts = joined(rows)
    found = silenced.ablation(model.info, mask, texts)
    if len(asked) == 1:
        return found
    order = orders(found, mean_slope(texts["slopes"][ORDERING]))
    return replace(found, curves=curves(order, np.array([held(one, order) for one in asked[MEASURING]])))


@dataclass(frozen=True)
class Silenced:
    """Which heads are put out of the way, by their numbers in the model, and the names of the ways."""

    ways: list[str]
    layers: list[int]
    heads: list[int]

    @classmethod
    def of(cls, model: TappedModel, ways: Ways, layers: Selection, heads: Selection) -> "Silenced":
        """Raises RequestError for a layer or a head that there is not."""
        return cls(list(ways.names), model.select_layers(layers), select(heads, model.heads, "head"))

    @property
    def sets(self) -> list[list[Head]]:
        """Every head by itself, each layer's heads at once, all of them."""
        sets = [[(layer, head)] for layer in self.layers for head in self.heads]
        sets += [[(layer, head) for head in self.heads] for layer in self.layers]
        return [*sets, [(layer, head) for layer in self.layers for head in self.heads]]

    def row(self, asked: Question, other: Reference | None) -> Rows:
        """Of a text: the `effects` of these sets `[way, set]`, the `slopes` at the gates of heads `[layer, head]`, not
        numbers where there are none, and the `value` without any change.
        """
        effects = np.array([effects_of(asked, way, other, self.sets) for way in self.ways])
        slopes = importance(asked, self.layers, self.heads)
        if slopes is None:
            slopes = np.full((len(self.layers), len(self.heads)), np.nan)
        return Rows.of(asked, effects=effects, slopes=slopes, value=asked.value)

    def ablation(self, info: ModelInfo, mask: str, texts: Rows) -> Ablation:
        """What the rows of at least one text come to, without curves."""
        effects, single = texts["effects"], len(self.layers) * len(self.heads)
        return Ablation(
            model=info,
            answer=Answer(texts.kind, texts.about, float(np.mean(texts["value"])), mask),
            layers=self.layers,
            heads=self.heads,
            ways=self.ways,
            effects=effects[..., :single].reshape(*effects.shape[:2], len(self.layers), len(self.heads)),
            of_layers=effects[..., single:-1],
            together=effects[..., -1],
            importance=mean_slope(texts["slopes"]),
        )


def mean_slope(slopes: Doubles) -> Doubles | None:
    """Over texts, `[text, layer, head]`; None where they have none."""
    there = slopes[~np.isnan(slopes).all(axis=(1, 2))]
    return np.mean(there, axis=0) if len(there) else None


def effects_of(asked: Question, way: str, other: Reference | None, sets: Sequence[Sequence[Head]]) -> Doubles:
    """Of each set of heads at once, `[set]`."""
    sources = put_by(way, other, max(len(text.tokens) for text in asked.texts))
    changes = [silence(some) if source is None else put(some, source) for some in sets for source in sources]
    return asked.effects(changes).reshape(len(sets), -1).mean(axis=1)


def put_by(way: str, other: Reference | None, tokens: int) -> list[Tensor | None]:
    """What stands in place of heads' outputs, of up to so many tokens, in each draw; None for 0."""
    if way == "zero":
        return [None]
    assert other is not None
    return [other.means] if way == "mean" else [other.drawn(tokens, draw) for draw in range(DRAWS)]


def importance(asked: Question, layers: Sequence[int], heads: Sequence[int]) -> Doubles | None:
    """|∂ output / ∂ gate|, `[layer, head]` (Michel et al. 2019, section 2.3, equation 3, with the output in place of
    their loss, before the mean over texts). None where it is 0 whatever the heads do: a divergence and a distance are
    least where nothing is changed.
    """
    if asked.kind in ("divergence", "distance"):
        return None
    return gate_gradients(asked).abs().cpu().numpy()[np.ix_(layers, heads)]
