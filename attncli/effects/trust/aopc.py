"""What a ranking of tokens is worth: erase those that it ranks first, and all others (DeYoung et al. 2020, "ERASER").

    comprehensiveness_k = change when the first k are erased             much, where the ranking is right
    sufficiency_k       = change when all but the first k are erased     little, where it is

k is 1, 5, 10, 20 and 50 % of the tokens that may be erased, rounded up; counts that come to the same are counted once.
AOPC is the mean over k (section 4.2 there; Samek et al. 2017, "area over the perturbation curve").
"""

import math
from collections.abc import Sequence

import numpy as np

from attncli.base.arrays import Doubles, Ints
from attncli.effects.trust.erasing import Erasing, Places

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def sizes(count: int) -> list[int]:
    """How many of so many tokens are erased, each once, ascending."""
    return sorted({math.ceil(round(share * count, 9)) for share in SHARES})


def order(importance: Doubles) -> Ints:
    """The most important first; of equals the one that stands first."""
    return np.argsort(-importance, kind="stable")


def chain(ranked: Sequence[int], counts: Sequence[int]) -> list[Places]:
    """The first tokens of a ranking, so many."""
    return [frozenset(ranked[:count]) for count in counts]


def aopc(erasing: Erasing, orders: Sequence[Ints]) -> tuple[Doubles, Doubles]:
    """Comprehensiveness and sufficiency of rankings, `[ranking]` each.

    orders: places among the erasable tokens, the most important first.
    """
    erasable = erasing.erasable
    every, counts = frozenset(erasable), sizes(len(erasable))
    chains = [chain([erasable[place] for place in ranked], counts) for ranked in orders]
    first = [places for one in chains for places in one]
    changes = erasing.changes([*first, *(every - places for places in first)])
    comprehensiveness, sufficiency = changes.reshape(2, len(orders), len(counts)).mean(axis=-1)
    return comprehensiveness, sufficiency
