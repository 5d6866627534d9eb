"""Replace a network's weights by permuted and by uniform ones, with a control.

Permuted: Jain and Wallace 2019, "Attention is not Explanation", section 4.2.1. The network is not trained with the new
weights. Uniform weights put in afterwards are a control of ours; Wiegreffe and Pinter 2019, "Attention is not not
Explanation", section 3.2, train a network with them, which asks something else.

Reordered: permuted weights in a text of the same tokens in random order. A network that breaks under permuted weights
breaks in that text too. A larger change in the original text comes from this text's weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attncli.base.arrays import Doubles
from attncli.effects.change import Change, Changed, Head, Reweigh, Unchanged, uniform
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
        own, other = ([*_changes(heads, permutations, seed, text), Reweigh(heads, uniform)] for text in (OWN, OTHER))
        found = question.effects(own, others=other)
        permuted.append(found[:-1])
        flat.append(found[-1])
        advance()
    return np.array(permuted), np.array(flat)


def _changes(heads: Sequence[Head], permutations: int, seed: int, text: int) -> list[Change]:
    """Return one change per permutation."""
    return [Reweigh(heads, Permuted(seed * permutations + draw, text)) for draw in range(permutations)]


def reordered(question: Question, places: Sequence[int], permutations: int, seed: int) -> Doubles:
    """Measure the effects of weights permuted in all layers, in texts of the same tokens in random order.

    Tokens move among these places of the first text; others stay. The result is empty, `[0]`, where all are equal.
    """
    text, *others = question.texts
    texts = _orders(text.tokens, places, permutations, seed)
    heads = [(layer, head) for layer in text.model.select_layers("all") for head in range(text.model.heads)]
    permuted, beside = (_changes(heads, permutations, seed, one) for one in (REORDERED, OTHER))
    together = max(1, min(one.model.batch_tokens // len(one.tokens) for one in question.texts))
    found = []
    with torch.inference_mode():
        for start in range(0, len(texts), together):
            some = slice(start, start + together)
            plain = text.model.last_hidden(texts[some], text.mask)
            changed = text.model.last_hidden(texts[some], text.mask, [Changed(permuted[some])])
            copies = [one.copies(0, beside[some]) for one in others]
            for place, (tokens, before, after) in enumerate(zip(texts[some], plain, changed, strict=True)):
                same = question.of_another(Unchanged(text.model, tokens, text.mask, [before]))
                pairs = [torch.stack([after, before])]
                pairs += [torch.stack([copy[place], one.last[0]]) for copy, one in zip(copies, others, strict=True)]
                numbers = same(pairs)
                same.check_finite(numbers)
                found.append(float(numbers[0] - numbers[1]))
    return np.array(found)


def _orders(tokens: Tokens, places: Sequence[int], count: int, seed: int) -> list[Tokens]:
    """Draw texts in which the tokens at these places stand in another order; none where no order reads differently."""
    generator, found = np.random.default_rng([seed, REORDERED]), list[Tokens]()
    several = len({tokens.ids[place] for place in places}) > 1
    while several and len(found) < count:
        source = list(range(len(tokens)))
        for place, taken in zip(places, generator.permutation(places).tolist(), strict=True):
            source[place] = taken
        names = ("ids", "text", "shown")
        moved = {name: [getattr(tokens, name)[place] for place in source] for name in names}
        if moved["ids"] != tokens.ids:
            found.append(replace(tokens, **moved))
    return found
