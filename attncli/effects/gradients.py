"""Gradients of what is asked at a network's end: by the gates of heads, and by their weights."""

import torch
from torch import Tensor

from attncli.attention import Attention
from attncli.effects.questions import Question
from attncli.models.attending import Gates
from attncli.models.kernels import attend_terms
from attncli.models.walk import Heads


class ByFormula:
    """Attention as its formula stands, whose weights have gradients; keeps them.

    kept: of each layer, in the order of the walk, `[text, head, query, key]`.
    """

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        made = by_formula(heads)
        self.kept.append(made.weights)
        return made.output


def by_formula(heads: Heads) -> Attention:
    return attend_terms(heads.query, heads.key, heads.value, heads.allowed(), heads.scale, heads.terms().values())


def attend_by_formula(heads: Heads, weights: Tensor | None = None) -> Tensor:
    """As its formula stands, which has derivatives in every mode, where torch's fused kernels have not."""
    return by_formula(heads).output


def gate_gradients(question: Question) -> Tensor:
    """∂ number / ∂ gate of every head, `[layer, head]`, float64, where all gates are 1."""
    model, like = question.texts[0].model, question.texts[0].last
    config = model.config
    with torch.enable_grad():
        gates = torch.ones(config.layers, config.heads, dtype=like.dtype, device=like.device, requires_grad=True)
        of_heads = {(layer, head): gates[layer, head] for layer in range(config.layers) for head in range(config.heads)}
        last = [torch.stack(model.last_hidden([text.tokens], text.mask, Gates(of_heads))) for text in question.texts]
        [found] = torch.autograd.grad(question(last)[0], gates)
    return found.double()
