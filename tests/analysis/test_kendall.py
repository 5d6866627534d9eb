"""Kendall's tau against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.analysis.kendall import tau

NUMBERS = st.lists(st.integers(-3, 3), min_size=7, max_size=7)


@given(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3))
def test_it_is_scipys_tau_b(one, others):
    stats = pytest.importorskip("scipy.stats")
    found = tau(np.array(one, dtype=float), np.array(others, dtype=float))
    theirs = [stats.kendalltau(one, other).statistic for other in others]
    np.testing.assert_allclose(found, theirs, atol=1e-12)


def test_the_same_order_the_reverse_and_none():
    one = np.array([1.0, 2.0, 5.0])
    np.testing.assert_array_equal(tau(one, np.array([[3, 4, 9], [3, 2, 1], [7, 7, 7]])), [1, -1, np.nan])
