"""Replace a network's weights by permuted and by uniform ones, with a control.

Permuted: Jain and Wallace 2019, "Attention is not Explanation", section 4.2.1. The network is not trained with the new
weights. Replacing weights by uniform ones after training is our own control. Wiegreffe and Pinter 2019, "Attention is
not not Explanation", section 3.2, train a network with them, which answers a different question. The control permutes
weights on the same tokens in random order. A network that breaks under any permuted weights also breaks there. A larger
change on the text itself is due to the weights of this text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.change import Reweigh, Unchanged, uniform
from attncli.effects.question import Question
from attncli.models.block import Block

OWN, OTHER, REORDERED = range(3)  # texts, each with its own permutations
SEEDS = 2**32  # seeds that torch's generator on a CPU distinguishes
APART = SEEDS // 4  # distance between the seeds of these texts


@dataclass(frozen=True)
class Permuted:
    """A rule of `Reweigh`: permutes the weights of each row over its visible keys.

    Each layer, head and row has its own permutation. The same seed and text give the same permutations. text: OWN,
    OTHER or REORDERED, so that two texts of equal length get different permutations.
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


def replace_weights(
    question: Question,
    places: Sequence[int],
    permutations: int,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Doubles, Doubles, float]:
    """Measure the effects of permuted weights, of the control, `[permutation]` each, and of uniform weights.

    Weights are replaced in all heads of all layers. places: positions of the first text, whose tokens are reordered for
    the control. `advance` is called after each effect.
    """
    text = question.texts[0]
    heads = [(layer, head) for layer in text.model.select_layers("all") for head in range(text.model.heads)]

    def permuted(of: int) -> list[Reweigh]:
        return [Reweigh(heads, Permuted(seed * permutations + draw, of)) for draw in range(permutations)]

    flat, beside = Reweigh(heads, uniform), permuted(OTHER)
    *found, by_uniform = question.effects([*permuted(OWN), flat], advance=advance, others=[*beside, flat])
    generator, control = np.random.default_rng([seed, REORDERED]), []
    for change, other in zip(permuted(REORDERED), beside, strict=True):
        source = np.arange(len(text.tokens))
        source[list(places)] = generator.permutation(places)
        lists = {name: [getattr(text.tokens, name)[place] for place in source] for name in ("ids", "text", "shown")}
        moved = question.with_other_text(Unchanged.of(text.model, replace(text.tokens, **lists), text.mask))
        control += moved.effects([change], advance=advance, others=[other]).tolist()
    return np.array(found), np.array(control), float(by_uniform)
