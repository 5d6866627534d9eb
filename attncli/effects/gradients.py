"""Gradients of what is asked at a network's end: by the gates of heads, and by their weights."""

import torch
from torch import Tensor

from attncli.attention import masked_softmax
from attncli.effects.questions import Question
from attncli.models.attending import Gates
from attncli.models.walk import Attend, Heads, walk


class ByFormula:
    """softmax(scale q kᵀ + terms) v as it stands, through which gradients flow; keeps the weights that it made.

    kept: of each layer, in the order of the walk, `[text, head, query, key]`.
    """

    def __init__(self, kept: list[Tensor] | None = None) -> None:
        self.kept = kept

    def __call__(self, heads: Heads, weights: Tensor | None = None) -> Tensor:
        made = formula_weights(heads)
        if self.kept is not None:
            self.kept.append(made)
        if weights is not None:
            weights.copy_(made)
        return made @ heads.value


def formula_weights(heads: Heads) -> Tensor:
    """`[text, head, query, key]`"""
    scores = heads.query @ heads.key.mT * heads.scale
    for term in heads.terms().values():
        scores = scores + term
    return masked_softmax(scores, heads.allowed())


def last_vectors(question: Question, attend: Attend) -> list[Tensor]:
    """What comes out of the last layer for each of its texts, `[1, token, hidden_size]`, with gradients."""
    with torch.enable_grad():
        made = []
        for text in question.texts:
            *_, last = walk(text.model.network, text.model.rows([text.tokens], text.mask), attend)
            made.append(last[None])
        return made


def gate_gradients(question: Question) -> Tensor:
    """∂ number / ∂ gate of every head, `[layer, head]`, float64, where all gates are 1."""
    config = question.texts[0].model.config
    with torch.enable_grad():
        like = question.texts[0].last
        gates = torch.ones(config.layers, config.heads, dtype=like.dtype, device=like.device, requires_grad=True)
        of_heads = {(layer, head): gates[layer, head] for layer in range(config.layers) for head in range(config.heads)}
        number = question(last_vectors(question, Gates(of_heads, ByFormula())))[0]
        [found] = torch.autograd.grad(number, gates)
    return found.double()
