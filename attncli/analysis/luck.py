"""Tell luck in counts and in means: intervals of a share and of a mean, and a test of which of two heads is right more
often.

Words are taken for independent of each other.
"""

import itertools
from math import sqrt
from statistics import NormalDist

import numpy as np

from attncli.base.arrays import Doubles

LEVEL = 0.05  # how often luck may pass for more: once in 20
STUDENT_STEPS = 2**16  # in which Student's distribution is summed, from 0 to FAR standard deviations
FAR = 12.0


def wilson(found: int, count: int, level: float) -> tuple[float, float]:
    """Return the shares from which `found` of `count` is unusual at most `level` of the time: Wilson's score interval.

    (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 + z²/n), with p = found/n, and z the quantile of 1 - level/2 of the
    normal distribution (Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference"). Unlike
    p ± z √(p(1 - p)/n) it is no point where all were found. For the best of m candidates it is right at `level`/m, at
    which the intervals of all of them are right together (Bonferroni).
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    share, more = found / count, z * z / count
    middle = share + more / 2
    reach = z * sqrt(share * (1 - share) / count + more / (4 * count))
    return max(0.0, (middle - reach) / (1 + more)), min(1.0, (middle + reach) / (1 + more))


def at_most(found: int, count: int, share: float) -> float:
    """Return P(X <= found), with X the hits of `count` independent draws, each a hit with this probability."""
    hits = np.arange(found + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])  # ln(n!)
    ways = logs[count] - logs[hits] - logs[count - hits]
    return min(1.0, float(np.exp(ways + hits * np.log(share) + (count - hits) * np.log1p(-share)).sum()))


def fewest_words(of: int) -> int:
    """Return the least number of words that tell two heads apart where one finds all of them and the other none.

    By the sign test, with Bonferroni's correction for the best of `of` candidates. Fewer words never tell them apart.
    """
    return next(words for words in itertools.count(1) if of * sign_test(words, 0) <= LEVEL)


def sign_test(more: int, less: int) -> float:
    """Return P(X >= more), with X the heads of more + less tosses of a coin; the tails are at most `less` then.

    Two heads guess the same words. The first alone finds `more`, the second alone `less`: that is the probability of
    such a lead where both are equally good. This is McNemar's test (1947), exact and one-sided, which
    Dietterich (1998, "Approximate Statistical Tests for Comparing Supervised Classification Learning Algorithms")
    advises for two classifiers on one set of examples.
    """
    return at_most(less, more + less, 0.5)


def mean_interval(samples: Doubles, covered: float) -> tuple[Doubles, Doubles]:
    """Return both ends of an interval for the mean of `[sample, ...]`, at least 2 samples: mean ± t s / sqrt(n).

    covered: how often such an interval contains the mean of normally distributed samples.
    """
    count, mean = len(samples), samples.mean(axis=0)
    half = student(covered, count - 1) * samples.std(axis=0, ddof=1) / np.sqrt(count)
    return mean - half, mean + half


def student(share: float, freedom: int) -> float:
    """Return the t within which, around 0, this share of Student's distribution lies (Student 1908).

    t = sqrt(freedom) tan(angle), and the density of the angle is proportional to cos(angle) ** (freedom - 1).
    """
    most = min(np.pi / 2, FAR / np.sqrt(freedom))
    step = most / STUDENT_STEPS
    mass = np.cumsum(np.cos(step * (np.arange(STUDENT_STEPS) + 0.5)) ** (freedom - 1))
    ends = step * np.arange(1, STUDENT_STEPS + 1)
    return float(np.sqrt(freedom) * np.tan(np.interp(share * mass[-1], mass, ends)))
