"""What is added up of a block of weights: beside numpy, and parts that join."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.corpus.batch_sums import divide_rows, reduced, weighted_sums
from attncli.corpus.sums import Part


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_sums_of_a_block_are_numpys(windows, heads, length, seed):
    numbers = np.random.default_rng(seed)
    weights = numbers.random((windows, heads, 4, length), dtype=np.float32) * (numbers.random(length) < 0.8)
    factors = numbers.random((windows, 9, 4, length), dtype=np.float32)
    counts = numbers.random((windows, 1, 4)) < 0.7
    made = reduced(
        torch.from_numpy(weights.copy()), torch.empty(weights.shape), *map(torch.from_numpy, (factors, counts))
    )
    logs = np.log(np.where(weights > 0, weights, 1))
    expected = [
        (-(weights * logs).sum(-1) * counts).sum(-1),
        (weights.max(-1) * counts).sum(-1),
        *np.einsum("whqk,wfqk->fwh", weights, factors),
    ]
    np.testing.assert_allclose(made.numpy(), np.stack(expected, axis=-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_a_precision_is_not_what_is_added_up_in(dtype):
    ones = torch.full((1, 2, 64, 64), 1 / 64, dtype=dtype)
    made = reduced(ones, torch.empty_like(ones), torch.ones(1, 1, 64, 64), torch.ones(1, 1, 64, dtype=torch.bool))
    assert made.dtype == torch.float32
    assert made[0, 0].tolist() == pytest.approx([64 * np.log(64), 1.0, 64.0], rel=1e-3)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_one_product_or_two_are_the_same(windows, heads, length, seed):
    numbers = torch.Generator().manual_seed(seed)
    weights, factors = (torch.rand(windows, *shape, generator=numbers) for shape in ((heads, length), (length, 3)))
    torch.testing.assert_close(weighted_sums(weights, factors), weights @ factors)


def test_rows_are_divided_by_their_sums_and_those_of_zeros_stay():
    norms = torch.tensor([[1.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    divide_rows(norms)
    assert norms.tolist() == [[0.25, 0.75], [0.0, 0.0], [1.0, 0.0]]


def test_parts_of_a_text_add_up():
    one, other = (Part(1, n, np.array([n / 2, n / 4]), np.full((1, 1, 2), n), np.full((1, 1), n)) for n in (3, 4))
    both = one.join(other)
    assert (both.windows, both.queries, both.limit.tolist()) == (2, 7, [3.5, 1.75])
    assert both.totals.tolist() == [[[7, 7]]] and both.divergence.tolist() == [[7]]
    assert one.join(other._replace(divergence=None)).divergence is None
