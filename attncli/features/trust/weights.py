"""Replace a network's weights by permuted and by uniform ones.

Permuted: Jain and Wallace 2019, "Attention is not Explanation", section 4.2.1. The network is not trained with the new
weights. Uniform weights put in afterwards are a control of ours; Wiegreffe and Pinter 2019, "Attention is not not
Explanation", section 3.2, train a network with them, which asks something else.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.change import Reweigh, uniform
from attncli.effects.question import Question
from attncli.models.block import Block

OWN, OTHER = range(2)  # texts, each with permutations of its own
SEEDS = 2**32  # seeds that torch's generator on a CPU distinguishes
APART = SEEDS // 4  # between the seeds of these texts


@dataclass(frozen=True)
class Permuted:
    """A rule of `Reweigh`: permutes the weights of each row over the keys that its query may attend to.

    Each layer, head and row is permuted by itself. The same seed and text draw the same permutations. text: OWN or
    OTHER. Without it two texts of equal length would get the same permutations.
    """

    seed: int
    text: int = OWN

    def __call__(self, block: Block, weights: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed((self.seed * 1009 + block.layer + self.text * APART) % SEEDS)
        order = torch.rand(weights.shape, generator=generator).to(weights.device)
        hidden = torch.zeros_like(order)
        if (allowed := block.allowed()) is not None:
            hidden = hidden.masked_fill(~allowed, 2.0)  # hidden keys come last
        drawn = (order + hidden).argsort(dim=-1)
        plain = hidden.argsort(dim=-1, stable=True)
        return torch.zeros_like(weights).scatter_(-1, plain, weights.gather(-1, drawn))


def shuffled(
    question: Question, permutations: int, seed: int, advance: Callable[[], None] = lambda: None
) -> tuple[Doubles, Doubles]:
    """Measure the effects of permuted weights `[1 + layer, permutation]` and of uniform ones `[1 + layer]`.

    First in all heads of all layers together, then in all heads of each layer. `advance` is called after each.
    """
    model = question.texts[0].model
    layers = [[(layer, head) for head in range(model.heads)] for layer in model.select_layers("all")]
    permuted, flat = [], []
    for heads in ([head for layer in layers for head in layer], *layers):
        own, other = (
            [
                *(Reweigh(heads, Permuted(seed * permutations + draw, text)) for draw in range(permutations)),
                Reweigh(heads, uniform),
            ]
            for text in (OWN, OTHER)
        )
        found = question.effects(own, others=other)
        permuted.append(found[:-1])
        flat.append(found[-1])
        advance()
    return np.array(permuted), np.array(flat)
