"""Gradients of what is asked at a network's end: by the gates of heads, and by their weights."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncli.effects.questions import Question
from attncli.models.block import Block, Tap
from attncli.models.taps import Gates


class ByFormula(Tap):
    """Has attention computed as its formula stands, which has derivatives in every mode; fused kernels have not."""

    by_formula = True


class Weights(ByFormula):
    """Keeps the weights of all heads, which have gradients.

    kept: for each block, in the order of the walk, `[text, head, query, key]`.
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
    """∂ number / ∂ gate of every head, `[layer, head]`, float64, where all gates are 1."""
    model, like = question.texts[0].model, question.texts[0].last
    with torch.enable_grad():
        gates = torch.ones(model.layers, model.heads, dtype=like.dtype, device=like.device, requires_grad=True)
        of_heads = {(layer, head): gates[layer, head] for layer in range(model.layers) for head in range(model.heads)}
        last = [torch.stack(model.last_hidden([text.tokens], text.mask, [Gates(of_heads)])) for text in question.texts]
        [found] = torch.autograd.grad(question(last)[0], gates)
    return found.double()
