"""Gradients of somebody's attention, beside those of the formula and beside finite differences of itself."""

import torch
from torch import Tensor

from attncli.attention.mistakes import Inputs
from attncli.checks.theirs.attention.examination import Examination
from attncli.checks.theirs.calling.forms import by_role
from attncli.checks.theirs.calling.roles import INPUTS
from attncli.checks.theirs.comparing import difference
from attncli.checks.theirs.found import Check

VECTORS = ("x", *INPUTS)
STEP = 1e-5  # of a finite difference, in float64: its own error is of the order of its square
FINITE = 1e-6  # of the largest gradient: what rounding and that square leave


def check_gradients(of: Examination) -> list[Check]:
    """Of Σ output · c, with c drawn, for all inputs."""
    names = ("gradients", "gradients, finite differences")
    inputs = of.draw(seed=30)
    expected = of.expected(inputs).output
    cotangent = torch.randn(expected.shape, generator=torch.Generator().manual_seed(31), dtype=torch.float64)
    put = of.fit.form.layout.put(cotangent)
    trial = of.run(inputs, cotangent=put)
    if trial.answer.error is not None:
        return [Check(name, None, note=f"it can't be differentiated: {trial.answer.error}") for name in names]
    if not trial.answer.gradients:
        return [Check(name, None, note="torch can't differentiate it") for name in names]
    given = [role for _, role in of.asked.roles.places if role in VECTORS or of.fit.form.gives_numbers(role)]
    theirs = [
        of.fit.form.layout.take(one)
        for role, one in zip(given, trial.answer.gradients, strict=True)
        if role in VECTORS  # and of no mask
    ]
    ours = gradients(of, inputs, cotangent)
    gap = max(difference(one, other) for one, other in zip(theirs, ours, strict=True))
    largest = max(float(one.abs().max()) for one in ours)
    checks = [Check(names[0], gap <= trial.within * max(1.0, largest), gap)]
    if (of.fit.dtype, of.fit.precision) != ("float64", "float64"):
        return [*checks, Check(names[1], None, note="it computes in float32")]
    gap = finite_differences(of, inputs, cotangent, theirs)
    return [*checks, Check(names[1], gap <= FINITE * max(1.0, largest), gap)]


def parts(of: Examination, inputs: Inputs) -> list[Tensor]:
    """The tensors that are given, in the order in which they are."""
    by = by_role(inputs)
    return [by[role] for _, role in of.asked.roles.places if role in by]


def with_parts(of: Examination, inputs: Inputs, made: list[Tensor]) -> Inputs:
    """The inputs with others in the place of these tensors."""
    roles = [role for _, role in of.asked.roles.places if role in VECTORS]
    by = dict(zip(roles, made, strict=True))
    query = by["query"] if "query" in by else by["x"]
    key = by.get("key", by.get("memory", query))
    return inputs._replace(query=query, key=key, value=by.get("value", key))


def gradients(of: Examination, inputs: Inputs, cotangent: Tensor) -> list[Tensor]:
    """The formula's."""
    leaves = [part.clone().requires_grad_() for part in parts(of, inputs)]
    output = of.expected(with_parts(of, inputs, leaves)).output
    return list(torch.autograd.grad((output * cotangent).sum(), leaves))


def finite_differences(of: Examination, inputs: Inputs, cotangent: Tensor, theirs: list[Tensor]) -> float:
    """Along one direction of each input: how far (f(x + ε d) - f(x - ε d)) / 2ε is from gradient · d."""
    gaps = []
    given = parts(of, inputs)
    generator = torch.Generator().manual_seed(32)
    for place, gradient in enumerate(theirs):
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        direction /= direction.norm()
        values = []
        for sign in (1, -1):
            moved = [part + sign * STEP * direction if place == other else part for other, part in enumerate(given)]
            result = of.run(with_parts(of, inputs, moved)).result
            if result is None:
                return torch.inf
            values.append(float((result.output * cotangent).sum()))
        gaps.append(abs((values[0] - values[1]) / (2 * STEP) - float((gradient * direction).sum())))
    return max(gaps)
