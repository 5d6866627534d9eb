"""A formula in the place of a model's attention, so that mistakes of the formula are mistakes of the model."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from torch import Tensor, nn

from attncli.attention.mistakes import (
    RIGHT,
    Affine,
    Formula,
    Inputs,
    Masking,
    Mistake,
    Projections,
    with_mistakes,
)
from attncli.attention.mistakes.known import DROPOUT
from attncli.models.block import Block
from attncli.models.network import Network

# How a mask comes to the formula, beside the mask's name: as rules, or as what is allowed.
HANDED: tuple[tuple[str, Callable[[Tensor], Masking]], ...] = (
    ("padding", lambda allowed: Masking(padding=allowed[:, 0, -1])),
    ("causal", lambda allowed: Masking(padding=allowed[:, 0, -1], causal=True)),
    ("causal", lambda allowed: Masking(pairs=allowed)),
)


def plant(patch: pytest.MonkeyPatch, network: Network, formula: Formula, seen: Callable[[Tensor], Masking]) -> None:
    """Plant a formula into all layers. seen: makes its masks from a mask `[text, 1, 1 or query, key]`."""

    def results(block: Block) -> tuple[Tensor, Tensor]:
        x, attention, allowed = block.inputs, network.layer(block.layer).attention, block.allowed()
        projections = Projections(
            *(Affine(part.weight, part.bias) for part in (attention.query, attention.key, attention.value)), None
        )
        result = formula(Inputs(x, x, x, attention.heads, projections, Masking() if allowed is None else seen(allowed)))
        output = attention.split_heads(result.output)[:, block.numbers]
        return output[..., : block.value.shape[-1]], result.weights[:, block.numbers]

    def weigh(
        part: Block, out: Tensor | None = None, differentiable: bool = False, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        output, weights = results(part)
        return output, (weights if out is None else out.copy_(weights)) if need_weights else None

    patch.setattr(Network, "weigh", staticmethod(weigh))
    for number in range(len(network.layers)):
        attention = network.layer(number).attention
        right = Affine(attention.output.weight, attention.output.bias)
        wrong = formula.projections(Projections(right, right, right, right)).output
        if wrong is not right:
            patch.setitem(attention._modules, "output", module_of(wrong))


def module_of(linear: Affine | None) -> nn.Module:
    if linear is None:
        return nn.Identity()
    made = nn.Linear(*reversed(linear.weight.shape), bias=linear.bias is not None)
    made.weight = nn.Parameter(linear.weight, requires_grad=False)
    if linear.bias is not None:
        made.bias = nn.Parameter(linear.bias, requires_grad=False)
    return made


def wrong_formulas(mistake: Mistake) -> list[Formula]:
    """The formula with this mistake, in every way; dropout is drawn."""
    if mistake.name == DROPOUT:
        return [replace(RIGHT, normalise=lambda *scores: nn.functional.dropout(RIGHT.normalise(*scores), 0.1))]
    return list(with_mistakes(RIGHT, (mistake,)))
