"""What the figures of heads can be, whatever the texts are: what is read from a file is held to it.

Sums are held to what their means can be.
"""

import math
from collections.abc import Sequence

import numpy as np

from attncli.analysis.distances import MOST_CLUSTERS
from attncli.analysis.statistics import FIGURES, LINEAR, Sums
from attncli.base.arrays import Doubles

# Rounding: of what should be 0, and of the sum of a row, which in bfloat16 misses 1 by up to 2^-8.
NOTHING, ROWS = 1e-6, 2.0**-7


def most(figure: str, limit: float, tokens: int) -> float:
    """The most that the mean of a figure can be, over so many tokens; limit: the most that entropy can be."""
    return {"entropy": limit, "distance": tokens - 1}.get(figure, 1.0)


def check_figures(figures: Doubles, limit: Doubles, tokens: int) -> None:
    """Raises ValueError for a figure of a head, `[layer, head, figure]`, that no texts of so many tokens have.

    limit: the entropy of a head that looks at everything alike, `[layer]`.
    """
    ends = np.array([[most(name, one, tokens) for name in FIGURES] for one in limit.tolist()])
    check_range(FIGURES, figures, ends[:, None])


def check_spread(spread: Doubles, tokens: int) -> None:
    """Raises ValueError for a standard deviation `[layer, head, figure]` that a figure can't have: at most half of the
    way from its least to its most.
    """
    ends = np.array([most(name, math.log(tokens), tokens) / 2 for name in FIGURES])
    check_range([f"spread of {name}" for name in FIGURES], spread, ends)


def check_limit(limit: Doubles, tokens: int) -> None:
    """Raises ValueError for an entropy `[layer]` of a head that looks at everything alike that can't be."""
    check_range("entropy_limit", limit, math.log(tokens))


def check_alike(alike: Doubles, tokens: int) -> None:
    """Raises ValueError for a figure in LINEAR, `[layer, figure]`, that looking at everything alike never gives."""
    check_range([f"alike: {name}" for name in LINEAR], alike, np.array([most(name, 0.0, tokens) for name in LINEAR]))


def check_divergence(divergence: Doubles) -> None:
    """Raises ValueError for what is no mean divergence between each two heads, `[head, head]`."""
    check_range("divergence", divergence, math.log(2))
    if np.abs(divergence.diagonal()).max(initial=0.0) > NOTHING or not np.allclose(divergence, divergence.T):
        raise ValueError("divergence: of two heads it is the same both ways, and 0 of one from itself")


def check_clusters(clusters: Sequence[int]) -> None:
    """Raises ValueError for clusters of heads that are not numbered as the first head of each comes."""
    there = list(dict.fromkeys(clusters))
    if there != list(range(len(there))):
        raise ValueError(f"clusters are numbered {there[:MOST_CLUSTERS]}, and not as their first heads come")


def check_sums(sums: Sums) -> None:
    """Raises ValueError for sums, of shapes that agree, that no texts have."""
    texts, queries = sums.texts, sums.queries
    if not 0 <= texts <= queries:
        raise ValueError(f"{texts} texts of {queries} tokens")
    if texts == 0:
        arrays = (sums.limit, sums.totals, sums.means, sums.squares, sums.divergence, sums.alike)
        if any(array is not None and array.any() for array in arrays):
            raise ValueError("sums of no text are 0")
        return
    check_limit(sums.limit / queries, queries)
    check_figures(sums.figures, sums.limit / queries, queries)
    means = sums.means / texts
    check_figures(means, np.full(len(means), math.log(queries)), queries)
    # The variance of what has this mean and is from 0 to `most` (Bhatia and Davis 2000).
    ends = np.array([most(name, math.log(queries), queries) for name in FIGURES])
    check_range([f"squares of {name}" for name in FIGURES], sums.squares / texts - means**2, ends * np.abs(means))
    if sums.divergence is not None:
        check_divergence(sums.divergence / queries)
    if sums.alike is not None:
        check_alike(sums.alike / queries, queries)


def check_range(what: str | Sequence[str], numbers: Doubles, end: Doubles | float) -> None:
    """Raises ValueError for a number below 0 or above `end`, but for rounding, or NaN. what: is said of it; of numbers
    that differ in that, a name for each place along the last axis.
    """
    ends = np.broadcast_to(end, numbers.shape)
    wrong = ~((numbers >= -NOTHING) & (numbers <= ends * (1 + ROWS) + NOTHING))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        name = what if isinstance(what, str) else what[place[-1]]
        raise ValueError(f"{name} is {numbers[place]:.4g}, and not from 0 to {ends[place]:.4g}")
