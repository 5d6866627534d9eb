"""What a ranking of tokens is worth: erase those that it ranks first, and all others (DeYoung et al. 2020, "ERASER").

    comprehensiveness_k = change when the first k are erased             much, where the ranking is right
    sufficiency_k       = change when all but the first k are erased     little, where it is

k is 1, 5, 10, 20 and 50 % of the tokens that may be erased, rounded up; counts that come to the same are counted once.
AOPC is the mean over k (section 4.2 there; Samek et al. 2017, "area over the perturbation curve").

The first k of every ranking are a chain of nested sets. Where all sets are known, so is the score of every chain.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

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


def as_good(erasings: Sequence[Erasing], orders: Sequence[Ints], room: float) -> Doubles:
    """Return the exact share of all orders of the tokens whose gap is as large as a ranking's, `[ranking]`.

    The gap is comprehensiveness minus sufficiency, mean over the ways of erasing. Every set is tried that is not known.
    room: what a gap may be smaller by and count as equal, since numbers are rounded.
    """
    erasable = erasings[0].erasable
    counts = sizes(len(erasable))
    steps = [gaps(erasings, size) for size in counts]
    own = np.zeros(len(orders))
    for (sets, values), size in zip(steps, counts, strict=True):
        firsts = [bits(ranked[:size]) for ranked in orders]
        own += values[np.searchsorted(sets, firsts)]
    chains, sums = np.zeros(1, dtype=np.int64), np.zeros(1)  # of all sizes but the last
    for sets, values in steps[:-1]:
        inner, outer = np.nonzero((chains[:, None] & sets) == chains[:, None])
        chains, sums = sets[outer], sums[inner] + values[outer]
    good, every = np.zeros(len(orders)), 0
    sets, values = steps[-1]
    for chain_end in np.unique(chains):
        last, before = np.sort(values[(sets & chain_end) == chain_end]), sums[chains == chain_end]
        less = np.searchsorted(last, (own - room * len(counts))[:, None] - before)
        good += (len(last) - less).sum(axis=1)
        every += len(last) * len(before)
    return good / every


def gaps(erasings: Sequence[Erasing], size: int) -> tuple[Ints, Doubles]:
    """Return all sets of so many tokens as numbers, ascending, and what each adds to the gap of an order."""
    erasable = erasings[0].erasable
    chosen = sorted(combinations(range(len(erasable)), size), key=bits)
    every, sets = frozenset(erasable), [frozenset(erasable[place] for place in some) for some in chosen]
    found = [one.changes(sets) - one.changes([every - places for places in sets]) for one in erasings]
    return np.array([bits(some) for some in chosen], dtype=np.int64), np.mean(found, axis=0)


def bits(places: Iterable[int]) -> int:
    """Return a set of places as a number, with a bit a place."""
    return sum(1 << int(place) for place in places)
