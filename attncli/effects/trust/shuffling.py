"""Other weights in place of a network's own: permuted ones, and the same for everything.

Permuted: Jain and Wallace 2019, "Attention is not Explanation", section 4.2.1. A control on what was trained: nothing
is trained with the new weights. Uniform weights put in afterwards are a control of ours; Wiegreffe and Pinter 2019,
"Attention is not not Explanation", section 3.2, train a network with them, which asks something else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.changes import Change, Head, Reweigh, uniform
from attncli.effects.questions import Question
from attncli.models.walk import Heads


@dataclass(frozen=True)
class Permuted:
    """A rule of `Reweigh`: every row's weights permuted over the keys that the query may attend to, in every layer,
    head and row by itself. The same seed draws the same permutations.
    """

    seed: int

    def __call__(self, heads: Heads, weights: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1009 + heads.layer)
        order = torch.rand(weights.shape, generator=generator).to(weights.device)
        hidden = torch.zeros_like(order)
        if (allowed := heads.allowed()) is not None:
            hidden = hidden.masked_fill(~allowed, 2.0)  # those come last, drawn or not
        drawn = (order + hidden).argsort(dim=-1)
        plain = hidden.argsort(dim=-1, stable=True)
        return torch.zeros_like(weights).scatter_(-1, plain, weights.gather(-1, drawn))


def shuffled(
    asked: Question, permutations: int, seed: int, advance: Callable[[], None] = lambda: None
) -> tuple[Doubles, Doubles]:
    """The effects of permuted weights `[1 + layer, permutation]` and of uniform ones `[1 + layer]`: in all heads of all
    layers at once, then in all heads of each layer. `advance` is called after each of these.
    """
    config = asked.texts[0].model.config
    layers = [[(layer, head) for head in range(config.heads)] for layer in range(config.layers)]
    permuted, flat = [], []
    for heads in ([head for layer in layers for head in layer], *layers):
        found = asked.effects([*changes(heads, permutations, seed), Reweigh(heads, uniform)])
        permuted.append(found[:-1])
        flat.append(found[-1])
        advance()
    return np.array(permuted), np.array(flat)


def changes(heads: Sequence[Head], permutations: int, seed: int) -> list[Change]:
    return [Reweigh(heads, Permuted(seed * permutations + draw)) for draw in range(permutations)]
