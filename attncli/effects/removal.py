"""How far an output holds when more and more heads are silenced, and in which order they go (Michel et al. 2019,
section 4): those that matter least first, by their effects or their importance; beside it heads drawn at random.

Who orders heads by the texts that he measures on finds luck too. So the order is made by every second text, and what
becomes of the output is measured on the others.
"""

from collections.abc import Sequence

import numpy as np

from attncli.analysis.effects import Ablation, Curve
from attncli.base.arrays import Doubles
from attncli.effects.changes import Head, silence
from attncli.effects.questions import Question

STEPS = 8  # numbers of heads at which the output is looked at
RANDOM = 5  # orders drawn


def curves(found: Ablation, asked: Sequence[Question], importance: Doubles | None) -> list[Curve]:
    """By effect, by importance where there is one, and random; of at least two texts.

    found: of all the texts; importance: of every second one, `[layer, head]`.
    """
    every = [(layer, head) for layer in found.layers for head in found.heads]
    removed = sorted({round(len(every) * step / STEPS) for step in range(1, STEPS + 1)} - {0})
    sizes = {"effect": np.abs(found.effects[::2, 0].mean(axis=0))}
    if importance is not None:
        sizes["importance"] = importance
    orders = {
        by: [[every[place] for place in np.argsort(size, axis=None, kind="stable")]] for by, size in sizes.items()
    }
    draw = np.random.default_rng(0)
    orders["random"] = [[every[place] for place in draw.permutation(len(every))] for _ in range(RANDOM)]
    return [
        Curve(by, drawn[0], removed, np.array([held(asked[1::2], heads, removed) for heads in drawn]))
        for by, drawn in orders.items()
    ]


def held(asked: Sequence[Question], order: Sequence[Head], removed: Sequence[int]) -> Doubles:
    """The mean effect on these texts of silencing the first so many heads of an order, `[step]`."""
    changes = [silence(order[:count]) for count in removed]
    found: Doubles = np.mean([one.effects(changes) for one in asked], axis=0)
    return found
