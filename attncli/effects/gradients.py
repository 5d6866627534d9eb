"""Gradients of a question's number with respect to head gates, weights and input vectors.

gradient x input: x_i · ∂ number / ∂ x_i, where x_i is the vector that goes into the first layer for token i (Denil et
al. 2014, "Extraction of Salient Sentences from Labelled Documents"; Shrikumar et al. 2017). A distance has its minimum
at the unchanged network, where it has a corner and no gradient. Its slope along x_i is used instead, the mean over t of
‖J_ti x_i‖ / ‖x_t‖. The gradient of a divergence is 0 there.

gradient x attention: R = I, then R += mean over heads of max(0, ∂ number / ∂ A ⊙ A) R, layer by layer (Chefer et al.
2021, "Generic Attention-model Explainability", ICCV, equations 5 and 6).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.change import Unchanged
from attncli.effects.question import Question
from attncli.models.block import Block, Tap
from attncli.models.taps import Gates
from attncli.models.walk import Beginning


class ByFormula(Tap):
    """Computes attention by its formula, which is differentiable in every mode, unlike fused kernels."""

    differentiable = True


class _Weights(ByFormula):
    """Keeps the weights of all heads with their gradients.

    kept: `[text, head, query, key]` per block, in the order of the walk.
    """

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def places(self, block: Block) -> Sequence[int]:
        return range(len(block.numbers))

    def parts(self, block: Block) -> list[Block]:
        return [block]

    def weights(self, part: Block, weights: Tensor) -> None:
        self.kept.append(weights)


def gate_gradients(question: Question) -> Tensor:
    """Return ∂ number / ∂ gate of each head at gates of 1, `[layer, head]`, float64."""
    model, like = question.texts[0].model, question.texts[0].last
    with torch.enable_grad():
        gates = torch.ones(model.layers, model.heads, dtype=like.dtype, device=like.device, requires_grad=True)
        of_heads = {(layer, head): gates[layer, head] for layer in range(model.layers) for head in range(model.heads)}
        last = [torch.stack(model.last_hidden([text.tokens], text.mask, [Gates(of_heads)])) for text in question.texts]
        [found] = torch.autograd.grad(question(last)[0], gates)
    return found.double()


class Slopes(NamedTuple):
    """Both gradients. inputs: gradient x input, `[token]`; relevance: the last R, `[token, input token]`."""

    inputs: Doubles
    relevance: Doubles


def slopes(question: Question) -> Slopes:
    """Compute both gradients of a number for its first text. A divergence and a distance have none."""
    text, *others = question.texts
    keep = _Weights()
    with torch.enable_grad():
        x = text.states[0].clone().requires_grad_()
        rows = text.model.rows([text.tokens], text.mask)
        *_, last = text.model.walk(rows, [keep], beginning=Beginning(0, x))
        number = question([torch.stack(rows.last(last)), *(other.last.clone() for other in others)])[0]
        of_input, *of_weights = torch.autograd.grad(number, [x, *keep.kept])
    inputs = (of_input * x).detach().double().sum(dim=-1)
    pairs = [(weights[0].detach(), gradient[0]) for weights, gradient in zip(keep.kept, of_weights, strict=True)]
    return Slopes(inputs.cpu().numpy(), relevance(pairs).cpu().numpy())


def relevance(layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Compute R, `[token, token]` float64, from weights and gradients per layer, `[head, query, key]` each."""
    found = torch.eye(layers[0][0].shape[-1], dtype=torch.float64, device=layers[0][0].device)
    for weights, gradient in layers:
        found = found + (gradient.double() * weights.double()).clamp(min=0).mean(dim=0) @ found
    return found


def input_slopes(text: Unchanged) -> Doubles:
    """Compute the mean over t of ‖J_ti x_i‖ / ‖x_t‖ for each token i, `[token]`.

    x_t is an output of the last layer, and J its Jacobian with respect to the input of the first. Each copy of the text
    has the x_i of one token as its direction. J u is the gradient of Jᵀ v with respect to v, along u: two backward
    passes.
    """
    count, model = len(text.tokens), text.model
    together = max(1, model.batch_tokens // count)
    lengths = text.last[0].double().norm(dim=-1)
    found = []
    for start in range(0, count, together):
        some = range(start, min(start + together, count))
        with torch.enable_grad():
            x = text.states[0].clone().repeat(len(some), 1).requires_grad_()
            direction = torch.zeros_like(x)
            for copy, place in enumerate(some):
                direction[copy * count + place] = text.states[0][place]
            rows = model.rows([text.tokens] * len(some), text.mask)
            *_, last = model.walk(rows, [ByFormula()], beginning=Beginning(0, x))
            back = torch.zeros_like(last, requires_grad=True)
            [pulled] = torch.autograd.grad(last, x, back, create_graph=True)
            [pushed] = torch.autograd.grad(pulled, back, direction)
        moved = rows.runs[0].tokens(pushed)
        found.append((moved.double().norm(dim=-1) / lengths).mean(dim=-1))
    return torch.cat(found).cpu().numpy()
