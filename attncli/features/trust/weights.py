"""Replace a network's weights by permuted and by uniform ones, with a control.

Permuted: Jain and Wallace 2019, "Attention is not Explanation", section 4.2.1. The network is not trained with the new
weights. Uniform weights put in afterwards are a control of ours; Wiegreffe and Pinter 2019, "Attention is not not
Explanation", section 3.2, train a network with them, which asks something else.

The control permutes weights in the same tokens in random order. A network that breaks under any permuted weights breaks
there too. A larger change in the text itself comes from the weights of this text.
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
from attncli.text.tokens import Tokens

OWN, OTHER, REORDERED = range(3)  # texts, each with permutations of its own
SEEDS = 2**32  # seeds that torch's generator on a CPU distinguishes
APART = SEEDS // 4  # between the seeds of these texts


@dataclass(frozen=True)
class Permuted:
    """A rule of `Reweigh`: permutes the weights of each row over the keys that its query may attend to.

    Each layer, head and row is permuted by itself. The same seed and text draw the same permutations. text: OWN, OTHER
    or REORDERED. Without it two texts of equal length would get the same permutations.
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


def put_other_weights(
    question: Question,
    places: Sequence[int],
    permutations: int,
    seed: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Doubles, Doubles, float]:
    """Measure the effects of permuted weights, of the control, `[permutation]` each, and of uniform weights.

    In all heads of all layers. places: of the first text; its tokens there change their order for the control.
    `advance` is called after each effect.
    """
    text = question.texts[0]
    heads = [(layer, head) for layer in text.model.select_layers("all") for head in range(text.model.heads)]

    def permuted(of: int) -> list[Reweigh]:
        return [Reweigh(heads, Permuted(seed * permutations + draw, of)) for draw in range(permutations)]

    flat, beside = Reweigh(heads, uniform), permuted(OTHER)
    *found, by_uniform = question.effects([*permuted(OWN), flat], advance=advance, others=[*beside, flat])
    generator, control = np.random.default_rng([seed, REORDERED]), []
    for change, other in zip(permuted(REORDERED), beside, strict=True):
        tokens = _move_tokens(text.tokens, places, generator.permutation(places).tolist())
        moved = question.of_another(Unchanged.of(text.model, tokens, text.mask))
        control += moved.effects([change], advance=advance, others=[other]).tolist()
    return np.array(found), np.array(control), float(by_uniform)


def _move_tokens(tokens: Tokens, places: Sequence[int], order: Sequence[int]) -> Tokens:
    """Return the text in which the tokens of `order` stand at these places."""
    source = list(range(len(tokens)))
    for place, taken in zip(places, order, strict=True):
        source[place] = taken
    names = ("ids", "text", "shown")
    return replace(tokens, **{name: [getattr(tokens, name)[place] for place in source] for name in names})
