"""An answer of somebody's layer beside a formula, and what rounding explains."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attncli.attention.mistakes import Linear, Projections
from attncli.attention.mistakes.layer_formula import RIGHT_LAYER, LayerFormula, LayerInputs, LayerResult, Norm, Parts
from attncli.attention.mistakes.steps import keep
from attncli.checks.theirs.comparing import HALF_STEPS, STEPS, difference
from attncli.checks.theirs.layers.forms import LayerForm
from attncli.checks.theirs.layers.parts import LayerReading
from attncli.checks.theirs.subjects.subject import Answer

ADDS_UP = 16  # rounding, through a layer's steps
OF_POSITIONS = 1e-4  # sines that are kept in single precision


@dataclass(frozen=True)
class LayerTrial:
    """An answer to inputs that were given in one form. weights: of the subject, by name."""

    form: LayerForm
    inputs: LayerInputs
    weights: Mapping[str, Tensor]
    answer: Answer
    dtype: str
    read: dict[tuple[int, str], LayerInputs] = field(default_factory=dict)

    @cached_property
    def output(self) -> Tensor | None:
        return None if self.answer.error is not None else self.form.read(self.answer, self.inputs)

    @cached_property
    def most(self) -> float:
        """The largest number of the output, or 1."""
        return 1.0 if self.output is None else max(1.0, float(self.output.nan_to_num(0.0, 0.0, 0.0).abs().max()))

    def read_by(self, reading: LayerReading, dtype: str = "float64") -> LayerInputs:
        """The inputs as the formula takes them."""
        key = id(reading), dtype
        if key not in self.read:
            made = self.inputs._replace(parts=reading.read(self.weights), heads=reading.heads)
            self.read[key] = as_dtype(made, getattr(torch, dtype))
        return self.read[key]

    def within(self, formula: LayerFormula, reading: LayerReading) -> float:
        """What rounding explains, beside this formula."""
        eps = torch.finfo(getattr(torch, self.dtype)).eps
        least = 0.0 if formula.positions is RIGHT_LAYER.positions else OF_POSITIONS * self.most
        if self.dtype in STEPS:
            return max(least, ADDS_UP * STEPS[self.dtype] * eps * self.most)
        wide, rounded = (computed(formula, self.read_by(reading, dtype)) for dtype in ("float64", self.dtype))
        gap = difference(rounded.output, wide.output) if rounded is not None and wide is not None else 0.0
        return 4 * (gap if gap < torch.inf else 0.0) + HALF_STEPS * eps * self.most

    def fits(self, formula: LayerFormula, reading: LayerReading, roughly: float = 0.0) -> bool:
        """Whether the formula gives this answer, or as it does none at all; softmax of nothing may be NaN."""
        if self.output is not None and bool(self.output.isnan().any()):
            attention, cross = (replace(one, forbid=keep) for one in (formula.attention, formula.cross))
            if self.equals(replace(formula, attention=attention, cross=cross), reading, roughly):
                return True
        return self.equals(formula, reading, roughly)

    def equals(self, formula: LayerFormula, reading: LayerReading, roughly: float) -> bool:
        result = computed(formula, self.read_by(reading, self.dtype))
        if result is None or self.output is None:
            return result is None and self.output is None
        within = roughly * self.most or self.within(formula, reading)
        return difference(self.output[:, None], result.output[:, None], result.nowhere[:, None]) <= within


def computed(formula: LayerFormula, inputs: LayerInputs) -> LayerResult | None:
    """None where it can't be computed at all."""
    try:
        return formula(inputs)
    except (RuntimeError, ValueError, IndexError):
        return None


def as_dtype(inputs: LayerInputs, dtype: torch.dtype) -> LayerInputs:
    def linear(one: Linear | None) -> Linear | None:
        return one and Linear(one.weight.to(dtype), None if one.bias is None else one.bias.to(dtype))

    def norm(one: Norm | None) -> Norm | None:
        return one and Norm(one.weight.to(dtype), None if one.bias is None else one.bias.to(dtype))

    def projections(one: Projections | None) -> Projections | None:
        return one and Projections(*map(linear, one))  # type: ignore[arg-type]

    by = inputs.parts
    parts = Parts(
        projections(by.attention),  # type: ignore[arg-type]
        linear(by.up),  # type: ignore[arg-type]
        linear(by.down),  # type: ignore[arg-type]
        tuple(map(norm, by.norms)),
        projections(by.cross),
        linear(by.gate),
    )
    memory = None if inputs.memory is None else inputs.memory.to(dtype)
    return inputs._replace(x=inputs.x.to(dtype), memory=memory, parts=parts)
