"""Whether two lists of numbers have the same order, and how much of that is luck."""

from dataclasses import dataclass

import numpy as np

from attncli.analysis.luck import LEVEL
from attncli.base.arrays import Doubles

PERMUTATIONS = 1000
LEAST = 3  # numbers: the order of two is the same or the other way round


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of two lists, and its range, 19 times of 20, when one of them is permuted freely."""

    rho: float
    low: float
    high: float
    count: int


def ranks(numbers: Doubles) -> Doubles:
    """From 1 for the smallest; equal numbers share the mean of their ranks."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    shared: Doubles = np.cumsum(counts) - (counts - 1) / 2
    return shared[places]


def rank_correlation(one: Doubles, other: Doubles, seed: int = 0) -> RankCorrelation | None:
    """Spearman's ρ: the correlation of ranks (Spearman 1904, "The Proof and Measurement of Association between Two
    Things"), and its range over permutations of the second list, every order being as likely. None for fewer than 3
    numbers, and where a list has the same number everywhere, which has no order.
    """
    first, second = (ranks(numbers) - (len(numbers) + 1) / 2 for numbers in (one, other))
    size = float(np.sqrt(first @ first * (second @ second)))
    if len(one) < LEAST or size == 0:
        return None
    generator = np.random.default_rng(seed)
    luck = [first @ generator.permutation(second) / size for _ in range(PERMUTATIONS)]
    low, high = np.quantile(luck, [LEVEL / 2, 1 - LEVEL / 2])
    return RankCorrelation(float(first @ second / size), float(low), float(high), len(one))
