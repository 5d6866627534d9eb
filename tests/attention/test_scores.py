"""Scoring functions against sums written out, and against each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import SCORES, dot, scaled_dot

sizes = st.integers(1, 6)


@given(leading=st.lists(sizes, max_size=3), queries=sizes, keys=sizes, d_k=sizes, seed=st.integers(0, 2**32))
def test_dot_is_the_sum_of_products(leading, queries, keys, d_k, seed):
    random = torch.Generator().manual_seed(seed)
    q = torch.randn(*leading, queries, d_k, generator=random, dtype=torch.float64)
    k = torch.randn(*leading, keys, d_k, generator=random, dtype=torch.float64)
    expected = torch.einsum("...qd,...kd->...qk", q, k)
    torch.testing.assert_close(dot(q, k), expected)
    torch.testing.assert_close(scaled_dot(q, k), expected / d_k**0.5)


def test_by_hand():
    q = torch.tensor([[1.0, 2.0, 0.0, -1.0]])
    k = torch.tensor([[3.0, 1.0, 9.0, 1.0], [0.0, 0.0, 5.0, 2.0]])
    assert dot(q, k).tolist() == [[4.0, -2.0]]
    assert scaled_dot(q, k).tolist() == [[2.0, -1.0]]  # d_k is 4


def test_leading_dimensions_broadcast():
    q, k = torch.randn(2, 3, 4, 5), torch.randn(3, 6, 5)
    for score in SCORES.values():
        assert score(q, k).shape == (2, 3, 4, 6)


@pytest.mark.parametrize("d_k", [16, 256])
def test_scaling_keeps_the_variance_at_one(d_k):
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(400, d_k, generator=random) for _ in range(2))
    assert dot(q, k).var().item() == pytest.approx(d_k, rel=0.1)
    assert scaled_dot(q, k).var().item() == pytest.approx(1, rel=0.1)


def test_the_table_holds_what_is_written():
    assert SCORES["dot"] is dot and SCORES["scaled_dot"] is scaled_dot and len(SCORES) == 2
