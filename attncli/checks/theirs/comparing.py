"""How far an answer is from the formula, and what rounding explains of it."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attncli.attention.mistakes import RIGHT, Formula, Inputs, Linear, Projections, Result
from attncli.attention.mistakes.steps import keep

# Beside scores and outputs of about 1: what the order of sums and a fused kernel's exp explain, in the dtype's steps.
STEPS = {"float64": 2**18, "float32": 32}
HALF_STEPS = 8


def as_dtype(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """These inputs in another precision, weights too."""

    def linear(one: Linear) -> Linear:
        return Linear(one.weight.to(dtype), None if one.bias is None else one.bias.to(dtype))

    by = inputs.projections
    if by is not None:
        by = Projections(linear(by.query), linear(by.key), linear(by.value), by.output and linear(by.output))
    return inputs._replace(
        query=inputs.query.to(dtype), key=inputs.key.to(dtype), value=inputs.value.to(dtype), projections=by
    )


def padded_queries(inputs: Inputs) -> Tensor:
    """Return the queries that are [PAD], bool `[batch, query]`: nothing reads their outputs."""
    padding, texts, queries = inputs.seen.padding, inputs.query.shape[0], inputs.query.shape[-2]
    known = padding is not None and queries == padding.shape[-1]
    return ~padding if padding is not None and known else torch.zeros(texts, queries, dtype=torch.bool)


def unread_queries(inputs: Inputs, ours: Result) -> Tensor:
    """Return the queries that are [PAD] or may see nothing, bool `[batch, query]`."""
    padded = padded_queries(inputs)
    return padded if ours.nowhere is None else padded | ours.nowhere.any(1)


def difference(theirs: Tensor, ours: Tensor, nowhere: Tensor | None = None, ignored: Tensor | None = None) -> float:
    """The largest absolute one; infinite where one alone is no number.

    A query that may see nothing (`nowhere`) may have NaN for an answer, as torch's own modules give. Those that are
    `ignored`, bool `[batch, query]`, may have any.
    """
    theirs, ours = theirs.double(), ours.double()
    if ignored is not None:
        theirs = torch.where(ignored[:, None, :, None] if ours.dim() == 4 else ignored[..., None], ours, theirs)
    if nowhere is not None:
        rows = nowhere if ours.dim() == 4 else nowhere.any(1)  # of any head: W_O adds them up
        theirs = torch.where(rows[..., None] & theirs.isnan(), ours, theirs)
    both = theirs.isnan() & ours.isnan() | (theirs == ours)
    gap = (theirs - ours).abs().masked_fill(both, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return float(gap.max()) if gap.numel() else 0.0


def tolerance(ours: Result, inputs: Inputs, dtype: str) -> float:
    """What rounding explains, of the output: more where scores or outputs are large."""
    largest = float(ours.output.double().nan_to_num(posinf=0.0, neginf=0.0).abs().max())
    if dtype in STEPS:
        query, key, _ = RIGHT.heads(inputs)
        scores = float((query.double() @ key.double().mT).abs().max()) / query.shape[-1] ** 0.5
        return STEPS[dtype] * torch.finfo(getattr(torch, dtype)).eps * max(1.0, largest) * max(1.0, scores)
    half = getattr(torch, dtype)
    rounded = RIGHT(as_dtype(inputs, half))
    return 4 * difference(rounded.output, ours.output) + HALF_STEPS * torch.finfo(half).eps * max(1.0, largest)


def explained(
    formula: Formula,
    inputs: Inputs,
    theirs: Callable[[torch.Size], Tensor | None],
    dtype: str,
    within: float,
    padded: bool = True,
) -> bool:
    """Whether the formula, in this precision, gives this answer; or, where there is none of a shape, none either.

    theirs: the answer of a shape, where there is one. padded: whether queries that are [PAD] are compared too.
    """
    given = as_dtype(inputs, getattr(torch, dtype))
    try:
        ours = formula(given)
    except (RuntimeError, ValueError, IndexError):  # these shapes can't be given to it
        return theirs(torch.Size()) is None
    output = theirs(ours.output.shape)
    if output is None:
        return False
    ignored = None if padded else padded_queries(inputs)
    if difference(output, ours.output, ours.nowhere, ignored) <= within:
        return True
    # Where a fully masked row is NaN, what comes after can carry that into other rows.
    return (
        bool(output.isnan().any())
        and difference(output, replace(formula, forbid=keep)(given).output, None, ignored) <= within
    )
