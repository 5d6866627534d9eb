"""Intervals of a share and of a mean, and a test of whether one of two guessers is right more often.

A guesser is a head, or a fixed offset.

Words are treated as independent.
"""

import itertools
from math import sqrt
from statistics import NormalDist

import numpy as np

from attncli.base.arrays import Doubles

LEVEL = 0.05  # significance level
STUDENT_STEPS = 2**16  # steps to integrate Student's distribution, from 0 to FAR standard deviations
FAR = 12.0


def wilson(found: int, count: int, level: float) -> tuple[float, float]:
    """Return Wilson's score interval for a share, after `found` of `count`, at the confidence 1 - level.

    (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 + z²/n), with p = found/n, and z the quantile of 1 - level/2 of the
    normal distribution (Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference"). Unlike p
    ± z √(p(1 - p)/n) it is not a single point if all were found. For the best of m candidates use `level`/m, at which
    the intervals of all candidates hold together (Bonferroni).
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    share, more = found / count, z * z / count
    middle = share + more / 2
    reach = z * sqrt(share * (1 - share) / count + more / (4 * count))
    return max(0.0, (middle - reach) / (1 + more)), min(1.0, (middle + reach) / (1 + more))


def binomial_cdf(found: int, count: int, share: float) -> float:
    """Return P(X <= found), where X is the number of successes in `count` draws with the probability `share`."""
    hits = np.arange(found + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])  # ln(n!)
    ways = logs[count] - logs[hits] - logs[count - hits]
    return min(1.0, float(np.exp(ways + hits * np.log(share) + (count - hits) * np.log1p(-share)).sum()))


def fewest_decisive(candidates: int) -> int:
    """Return the smallest number of words that can decide between two guessers: one finds all of them, the other none.

    Uses the sign test, with Bonferroni's correction for the best of this many candidates.
    """
    return next(words for words in itertools.count(1) if candidates * sign_test(words, 0) <= LEVEL)


def sign_test(more: int, less: int) -> float:
    """Return P(X >= more), where X is the number of successes in more + less draws with the probability 1/2.

    Two guessers guess the same words. Only the first finds `more` of them, and only the second `less`. The result is
    the probability of such a lead if both are equally good. This is McNemar's test (1947), exact and one-sided.
    Dietterich (1998, "Approximate Statistical Tests for Comparing Supervised Classification Learning Algorithms")
    advises it for two classifiers on one set of examples.
    """
    return binomial_cdf(less, more + less, 0.5)


def mean_interval(samples: Doubles, covered: float) -> tuple[Doubles, Doubles]:
    """Return both ends of an interval for the mean of `[sample, ...]`, at least 2 samples: mean ± t s / sqrt(n).

    covered: the confidence level, exact for normally distributed samples.
    """
    count, mean = len(samples), samples.mean(axis=0)
    half = student_quantile(covered, count - 1) * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return mean - half, mean + half


def student_quantile(share: float, freedom: int) -> float:
    """Return t, so that this share of Student's distribution lies between -t and t (Student 1908).

    t = sqrt(freedom) tan(angle), and the density of the angle is proportional to cos(angle) ** (freedom - 1).
    """
    most = min(np.pi / 2, FAR / np.sqrt(freedom))
    step = most / STUDENT_STEPS
    mass = np.cumsum(np.cos(step * (np.arange(STUDENT_STEPS) + 0.5)) ** (freedom - 1))
    ends = step * np.arange(1, STUDENT_STEPS + 1)
    return float(np.sqrt(freedom) * np.tan(np.interp(share * mass[-1], mass, ends)))
