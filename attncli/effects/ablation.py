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
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.effects.asking import Asking, question
from attncli.effects.changes import put, silence
from attncli.effects.gradients import gate_gradients
from attncli.effects.progress import Progress, silent
from attncli.effects.questions import Question
from attncli.effects.reference import Reference, reference, usual_reference
from attncli.effects.removal import curves
from attncli.models.model import Model
from attncli.record.request import Input
from attncli.record.selection import Selection, select

DRAWS = 5  # of a resampled head: their effects are averaged


@dataclass(frozen=True)
class Ways:
    """What is put in place of heads' outputs.

    names: of `choices.Way`; texts: the other texts that "mean" and "resample" take outputs from.
    """

    names: Sequence[str] = ("zero",)
    texts: Sequence[str] | None = None

    def reference(self, model: Model, mask: str) -> Reference | None:
        """Raises RequestError for a way that there is not."""
        for name in self.names:
            choices.check("way", name, choices.Way)
        if set(self.names) <= {"zero"}:
            return None
        if self.texts is None:
            return usual_reference(model, mask)
        return reference(model, model.tokenize(map(Input, self.texts), None), mask)


def ablate(
    model: Model,
    texts: str | Sequence[str],
    ways: Ways = Ways(),
    layers: Selection = "all",
    heads: Selection = "all",
    asking: Asking = Asking(),
    progress: Progress = silent,
) -> Ablation:
    """The effect of each head by itself, of these heads of each layer at once, and of all of them, on each text; of
    several texts the order too in which heads can go (`attncli.effects.removal`).

    progress: is told of every text.

    Raises RequestError for a layer, head or way that there is not, and as `question` does.
    """
    of_texts = [texts] if isinstance(texts, str) else texts
    asked = (question(model, text, asking) for text in of_texts)
    with progress(len(of_texts), "texts") as advance:
        return ablation(model, asked, ways, layers, heads, asking.mask, advance)


def ablation(
    model: Model,
    questions: Iterable[Question],
    ways: Ways = Ways(),
    layers: Selection = "all",
    heads: Selection = "all",
    mask: str = "padding",
    advance: Callable[[], None] = lambda: None,
) -> Ablation:
    """The same of questions that are asked already, all of one kind, under this mask. advance: called after each."""
    of_layers, of_heads = select(layers, model.config.layers, "layer"), select(heads, model.config.heads, "head")
    other = ways.reference(model, mask)
    asked, rows, slopes = [], [], []
    for one in questions:
        rows.append([effects_of(one, way, other, of_layers, of_heads) for way in ways.names])
        slopes.append(importance(one, of_layers, of_heads))
        asked.append(one)
        advance()
    if not asked:
        raise RequestError("there is no text to ask about")
    effects = np.array(rows)
    single = len(of_layers) * len(of_heads)
    found = Ablation(
        model=model.info,
        answer=Answer(asked[0].kind, asked[0].about, float(np.mean([one.value for one in asked])), mask),
        layers=of_layers,
        heads=of_heads,
        ways=list(ways.names),
        effects=effects[..., :single].reshape(*effects.shape[:2], len(of_layers), len(of_heads)),
        of_layers=effects[..., single:-1],
        together=effects[..., -1],
        importance=mean_of(slopes),
    )
    return found if len(asked) == 1 else replace(found, curves=curves(found, asked, mean_of(slopes[::2])))


def mean_of(slopes: Sequence[Doubles | None]) -> Doubles | None:
    """Over texts; None where they have none."""
    there = [one for one in slopes if one is not None]
    return np.mean(there, axis=0) if there else None


def effects_of(
    asked: Question, way: str, other: Reference | None, layers: Sequence[int], heads: Sequence[int]
) -> Doubles:
    """Of every head, then of each layer's heads at once, then of all: `[change]`."""
    sets = [[(layer, head)] for layer in layers for head in heads]
    sets += [[(layer, head) for head in heads] for layer in layers]
    sets += [[(layer, head) for layer in layers for head in heads]]
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
