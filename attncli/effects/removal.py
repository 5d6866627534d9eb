"""How far an output holds when more and more heads are silenced, and in which order they go (Michel et al. 2019,
section 4): those that matter least first, by their effects or their importance; beside it heads drawn at random.

Who orders heads by the texts that he measures on finds luck too. So the order is made by every second text, and what
becomes of the output is measured on the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attncli.analysis.effects import Ablation, Curve
from attncli.base.arrays import Doubles
from attncli.effects.changes import Head, silence
from attncli.effects.questions import Question

STEPS = 8  # numbers of heads at which the output is looked at
RANDOM = 5  # orders drawn
ORDERING, MEASURING = slice(0, None, 2), slice(1, None, 2)  # texts that make the order, and those it is measured on


@dataclass(frozen=True)
class Orders:
    """In which orders heads go: by "effect", by "importance" where there is one, and "random" ones.

    removed: numbers of heads that are gone when the output is looked at.
    """

    heads: Mapping[str, Sequence[Sequence[Head]]]
    removed: Sequence[int]

    @property
    def every(self) -> list[Sequence[Head]]:
        return [order for orders in self.heads.values() for order in orders]


def orders(found: Ablation, importance: Doubles | None) -> Orders:
    """found: of all the texts; importance: of those that make the order, `[layer, head]`."""
    every = [(layer, head) for layer in found.layers for head in found.heads]
    sizes = {"effect": np.abs(found.effects[ORDERING, 0].mean(axis=0))}
    if importance is not None:
        sizes["importance"] = importance
    heads = {by: [[every[place] for place in np.argsort(size, axis=None, kind="stable")]] for by, size in sizes.items()}
    draw = np.random.default_rng(0)
    heads["random"] = [[every[place] for place in draw.permutation(len(every))] for _ in range(RANDOM)]
    return Orders(heads, sorted({round(len(every) * step / STEPS) for step in range(1, STEPS + 1)} - {0}))


def held(asked: Question, orders: Orders) -> Doubles:
    """The effect on a text of silencing the first so many heads of each order, `[order, step]`."""
    return np.array([asked.effects([silence(order[:count]) for count in orders.removed]) for order in orders.every])


def curves(orders: Orders, steps: Doubles) -> list[Curve]:
    """steps: of each text that is measured on what is `held` of it, `[text, order, step]`."""
    means = iter([np.ascontiguousarray(steps[:, place]).mean(axis=0) for place in range(steps.shape[1])])
    return [
        Curve(by, list(drawn[0]), list(orders.removed), np.array([next(means) for _ in drawn]))
        for by, drawn in orders.heads.items()
    ]
