"""One run of a subject: what it was given, and what came out."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attncli.attention.mistakes import RIGHT, Formula, Inputs, Result
from attncli.checks.code.subject import Answer
from attncli.checks.theirs.calling.drawing import Shape
from attncli.checks.theirs.calling.forms import Form
from attncli.checks.theirs.calling.readings import Reading
from attncli.checks.theirs.comparing import explained, tolerance
from attncli.checks.theirs.telling import why


@dataclass(frozen=True)
class Trial:
    """An answer to inputs that were given in one form.

    dtype: of the inputs and weights; precision: what it computes in inside, where that is coarser.
    """

    form: Form
    reading: Reading | None
    inputs: Inputs
    answer: Answer
    dtype: str
    precision: str = "float64"

    @cached_property
    def result(self) -> Result | None:
        return None if self.answer.error is not None else self.form.read(self.answer, self.inputs)

    @property
    def crosses(self) -> bool:
        return self.inputs.query.shape[-2] != self.inputs.key.shape[-2]

    @property
    def is_as_exact(self) -> bool:
        """Whether it gave numbers as exact as it was given: JAX makes float32 of everything."""
        return self.result is not None and self.result.output.dtype.itemsize >= getattr(torch, self.dtype).itemsize

    @cached_property
    def within(self) -> float:
        dtype = self.precision if self.dtype == "float64" else self.dtype
        return tolerance(RIGHT(self.inputs), self.inputs, dtype)

    def fits(self, formula: Formula, padded: bool = True) -> bool:
        """Return whether the formula gives this answer too. padded: compare the queries that are [PAD] as well."""
        return explained(formula, self.inputs, self.output, self.dtype, self.within, padded)

    def output(self, shape: torch.Size) -> Tensor | None:
        """What it gave of this shape."""
        return None if self.answer.error is not None else self.form.output(self.answer, self.inputs, shape)


def shape_in(form: Form, shape: Shape = Shape()) -> Shape:
    """What of it is drawn for this form: without a dimension for texts or heads there is one."""
    shape = shape if form.layout.batch else shape._replace(batch=1)
    return shape if form.layout.heads else shape._replace(heads=1)


def no_output(answer: Answer) -> str:
    """Why nothing can be checked."""
    where = "" if answer.at is None else f" (line {answer.at})"
    if answer.error is not None:
        return f"it can't be run: {answer.error}{where}"
    shapes = ", ".join(str(list(one.shape)) for one in answer.outputs) or "nothing"
    return f"none of what it gives has the output's shape: {shapes}"


def runs_once(answer: Answer) -> str:
    """The same where it gave an output before."""
    return f"it runs once and not again: {why(answer)}"
