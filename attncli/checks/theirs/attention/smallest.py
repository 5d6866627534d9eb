"""The smallest input on which somebody's attention differs from the formula, in words."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import Inputs
from attncli.checks.theirs.attention.examination import Examination
from attncli.checks.theirs.attention.trial import no_output
from attncli.checks.theirs.calling.drawing import with_vectors
from attncli.checks.theirs.comparing import difference

SIZES = ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (5, 7))  # queries, keys
SHOWN = 6  # numbers of a result


def smallest_of(of: Examination) -> str:
    """The first of ever larger inputs that comes out otherwise, with both results; '' where none of them does."""
    for what, inputs in ever_larger(of):
        trial = of.run(inputs)
        ours = of.expected(inputs)
        if trial.result is None:
            return f"{what}: {no_output(trial.answer)}; the formula gives {shown(ours.output)}"
        if difference(trial.result.output, ours.output, ours.nowhere) > trial.within:
            return f"{what}: {apart(trial.result.output, ours.output)}"
    return ""


def ever_larger(of: Examination) -> Iterator[tuple[str, Inputs]]:
    """Of one text and one head, first without a mask; of a function also of vectors with two elements."""
    for masked in (False, True):
        for queries, keys in SIZES:
            inputs = of.draw(batch=1, heads=1, queries=queries, keys=keys, d_k=2, d_v=2, crosses=queries != keys)
            inputs = with_vectors(inputs, lambda x: (x * 10).round() / 10)  # to one digit
            lengths = inputs.query.shape[-2], inputs.key.shape[-2]
            said = f"of queries and keys {lengths[0]} and {lengths[1]}"
            if not masked:
                yield f"{said}{values(inputs)}", inputs
            elif (hidden := of.hiding(inputs, causal_mask(*lengths))) is not None:
                yield f"{said}, a causal mask{values(inputs)}", hidden


def values(inputs: Inputs) -> str:
    """The inputs themselves, where they are few."""
    if inputs.projections is not None:
        return ""
    return f" (query {shown(inputs.query)}, key {shown(inputs.key)}, value {shown(inputs.value)})"


def apart(theirs: Tensor, ours: Tensor) -> str:
    """Say both numbers at the place where they are furthest apart, with as many digits as tell them apart."""
    gaps = (theirs.double() - ours.double()).abs().nan_to_num(nan=torch.inf)
    place = int(gaps.flatten().argmax())
    one, other = float(theirs.flatten()[place]), float(ours.flatten()[place])
    where = ", ".join(str(int(number)) for number in torch.unravel_index(torch.tensor(place), ours.shape))
    digits = next((digits for digits in range(4, 17) if f"{one:.{digits}g}" != f"{other:.{digits}g}"), 17)
    return f"output[{where}] is {one:.{digits}g}; the formula gives {other:.{digits}g}"


def shown(x: Tensor) -> str:
    numbers = [f"{float(one):.4g}" for one in x.double().flatten()[:SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if x.numel() > SHOWN else ''}]"
