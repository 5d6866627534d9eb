"""Plant the mistakes that people make in attention in the layer of a real head, and measure their effect on its map.

There are two baselines: the effect on the layer's other heads, and the effect of exchanging the heads' maps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from typing import NamedTuple, cast

import torch

from attncli.analysis.patterns import total_variation
from attncli.attention import RotaryScore, window_mask
from attncli.attention.mistakes import (
    MISTAKES,
    RIGHT,
    Affine,
    Formula,
    FormulaResult,
    Inputs,
    Masking,
    Mistake,
    Projections,
    with_mistakes,
)
from attncli.base.arrays import Floats, finite
from attncli.base.errors import RequestError
from attncli.features.mechanisms.document import ExchangedEntry, MistakesEntry, PlantedEntry
from attncli.features.mechanisms.head import SAME, HeadInLayer
from attncli.models.engine import Engine
from attncli.models.head import OneHead
from attncli.models.model import Model, own_network


class Moved(NamedTuple):
    """The distances of a layer from the correct one; NaN if numbers became NaN.

    own, others: the weight that must move to correct this head's map, and each other head's (total variation, mean over
    the counted queries); above 1 if rows sum to more than 1. output: ‖output - right‖ / ‖right‖ of the layer's
    attention, over these queries.
    """

    own: float
    others: Sequence[float]
    output: float

    @property
    def shows(self) -> bool:
        """Return whether anything moved by more than rounding explains; NaN counts as moved."""
        return not all(one <= SAME for one in (self.own, *self.others, self.output))

    @property
    def of_others(self) -> float | None:
        """Return the mean over the other heads; None without any."""
        return mean(self.others) if self.others else None

    @property
    def finite(self) -> tuple[float | None, float | None, float | None]:
        """Return own, the mean over the other heads, and output; None for NaN."""
        return finite(self.own), finite(self.of_others), finite(self.output)


@dataclass(frozen=True)
class PlantedMistake:
    """A mistake planted in a layer, in the first variant that changes something.

    weights: the head's map `[query, key]`. Both are None if no variant is possible in this layer, or none has an
    effect.
    """

    mistake: Mistake
    weights: Floats | None = None
    moved: Moved | None = None


@dataclass(frozen=True)
class Mistakes:
    """The effects of all known mistakes on a head.

    exchanged: the control, in which each head of the layer has another one's map, mean over all rotations of the heads;
    None if there is one head.
    """

    made: list[PlantedMistake]
    exchanged: Moved | None

    def document(self) -> MistakesEntry:
        """Return its entry in what `mechanisms --json` prints; NaN is null."""
        made: list[PlantedEntry] = []
        for one in self.made:
            moved = (None, None, None) if one.moved is None else one.moved.finite
            weights = None if one.weights is None else [list(map(finite, row)) for row in one.weights.tolist()]
            made.append(
                {
                    "name": one.mistake.name,
                    "says": one.mistake.says,
                    "where": one.mistake.where,
                    "remedy": one.mistake.remedy,
                    "needs": one.mistake.needs or None,
                    "moved": moved[0],
                    "others_moved": moved[1],
                    "output": moved[2],
                    "weights": cast("list[list[float]] | None", weights),
                }
            )
        if self.exchanged is None:
            return {"exchanged": None, "made": made}
        moved = self.exchanged.finite
        exchanged = {"moved": moved[0], "others_moved": moved[1], "output": moved[2]}
        return {"exchanged": cast("ExchangedEntry", exchanged), "made": made}


def make_mistakes(model: Engine, head: OneHead) -> Mistakes:
    """Plant each of `MISTAKES` in the layer of this head, with its own projections, input and mask.

    Raises RequestError if the formula has no step for the layer's positions, or the projections are unknown.
    """
    if head.x is None:
        raise RequestError(
            f"--mistakes needs a layer's projections, which are unknown in {model.place.name} because transformers "
            "runs it: omit --mistakes"
        )
    own = own_network(model)
    assert own is not None  # whose projections are known
    inside = HeadInLayer.of(own, head)
    formula, inputs = formula_of(own, inside), inputs_of(own, head, inside)
    counted, number = inside.counted, inside.number
    rows = torch.from_numpy(counted).to(model.device)

    with torch.inference_mode():
        right = formula(inputs)

        def moved(made: FormulaResult) -> Moved:
            """Measure how far a result is from the right one."""
            maps, rights = (result.weights[0].float().cpu().numpy()[:, counted] for result in (made, right))
            own = total_variation(maps, rights).mean(axis=-1).tolist()
            others = own[:number] + own[number + 1 :]
            output, expected = made.output[0, rows].double(), right.output[0, rows].double()
            return Moved(own[number], others, float((output - expected).norm() / expected.norm()))

        def make(mistake: Mistake) -> PlantedMistake:
            """Plant the mistake in its first variant that has an effect."""
            for wrong in with_mistakes(formula, (mistake,)):
                try:
                    result = wrong(inputs)
                    found = moved(result)
                except RuntimeError:  # a matrix that is not square can't be transposed or omitted
                    continue
                if found.shows:
                    return PlantedMistake(mistake, result.weights[0, number].float().cpu().numpy(), found)
            return PlantedMistake(mistake)

        turns = []  # each head with the map of the head `turn` places before it
        for turn in range(1, inputs.heads):
            rolled = replace(formula, normalise=lambda *s, turn=turn: formula.normalise(*s).roll(turn, dims=1))
            turns.append(moved(rolled(inputs)))
        exchanged = None
        if turns:
            others = [mean(one) for one in zip(*(one.others for one in turns), strict=True)]
            exchanged = Moved(mean(one.own for one in turns), others, mean(one.output for one in turns))
        return Mistakes(list(map(make, MISTAKES)), exchanged)


# --- a layer in terms of the formula --------------------------------------------------------------------


def formula_of(model: Model, inside: HeadInLayer) -> Formula:
    """Return the formula of a head's layer, without a mistake.

    Raises RequestError if positions add to the scores or rotate values, or queries and keys are normalised.
    """
    score, what = inside.score, None
    assert score is not None
    if score.has_terms or (isinstance(score, RotaryScore) and "value" in score.turned):
        what = "positions add terms to it"
    elif model.config.query_key_norm is not None:
        what = "queries and keys are normalised"
    if what is not None:
        raise RequestError(
            f"--mistakes are planted in softmax(Q Kᵀ / √d_k) V, and {what} in {model.config.model_type}: "
            "use another model, or omit --mistakes"
        )
    if not isinstance(score, RotaryScore):
        return RIGHT
    turned = partial(score, positions=inside.positions)
    # The formula divides by √d_k in a later step.
    return replace(RIGHT, score=lambda query, key: turned(query, key) * query.shape[-1] ** 0.5)


def inputs_of(model: Model, head: OneHead, inside: HeadInLayer) -> Inputs:
    """Return the input of the layer's attention, its projections, and its mask as rules."""
    attention = inside.attention
    assert attention is not None
    parts = (attention.query, attention.key, attention.value, attention.output)
    x = torch.from_numpy(head.x).to(model.device)[None]
    reach = model.config.reach[head.record.layers[0]]
    hides = head.record.mask_name != "none"
    return Inputs(
        x,
        x,
        x,
        attention.heads,
        Projections(*(Affine(part.weight, part.bias) for part in parts)),
        Masking(
            padding=inside.real[None] if hides and not bool(inside.real.all()) else None,
            causal=head.record.mask_name == "causal",
            pairs=None if reach is None else window_mask(reach, x.shape[1], device=x.device),
        ),
    )
