"""Rank correlation, beside scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from attncli.analysis.ranks import rank_correlation, ranks

NUMBERS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=12)


@given(NUMBERS)
def test_ranks_and_their_correlation_are_those_of_scipy(pairs):
    """Equal numbers too."""
    one, other = np.array(pairs, dtype=float).T
    np.testing.assert_array_equal(ranks(one), rankdata(one))
    found = rank_correlation(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found.rho == pytest.approx(spearmanr(one, other).statistic) and found.count == len(pairs)


def test_what_is_permuted_lies_in_the_interval_19_times_of_20():
    generator = np.random.default_rng(0)
    one = generator.normal(size=20)
    inside = 0
    for _ in range(100):
        found = rank_correlation(one, generator.normal(size=20))
        inside += found.low <= found.rho <= found.high
    assert 88 <= inside <= 99
    same = rank_correlation(one, 3 * one)
    assert same.rho == pytest.approx(1) and same.high < 0.6


def test_the_permutation_is_free_whatever_rows_and_columns_the_numbers_come_from():
    """Its standard deviation is 1 / sqrt(n - 1) (Kendall 1948). Rows and columns permuted together would keep a sink's
    column together, and make it twice as wide.
    """
    generator = np.random.default_rng(0)
    sink = np.zeros(16)
    sink[0] = 5.0
    one, other = (generator.normal(size=(16, 16)) + generator.normal(size=16) + sink for _ in range(2))
    found = rank_correlation(one.ravel(), other.ravel())
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(255), rel=0.1)


def test_two_numbers_have_no_correlation():
    assert rank_correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None
