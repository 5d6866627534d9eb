"""Attention against torch's own, over random shapes, masks and dtypes, forward and gradient."""

import math

import pytest
import torch
from attention_cases import cases, close, refuses_what_does_not_fit, torchs_own
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import attend, dot


@given(cases())
@settings(max_examples=150)
def test_output_is_torchs(case):
    expected, output = torchs_own(case), attend(*case).output
    assert output.dtype == case.query.dtype and output.shape == expected.shape
    close(output, expected, case)


@given(cases())
@settings(max_examples=100)
def test_weights_are_a_distribution_over_what_is_allowed(case):
    output, weights, scores = attend(*case)
    queries, keys = case.query.shape[-2], case.key.shape[-2]
    assert weights.shape == scores.shape == (*case.query.shape[:-2], queries, keys)
    assert weights.dtype == case.query.dtype
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if case.mask is not None:
        allowed &= case.mask
    assert (weights[~allowed] == 0).all()
    assert (weights >= 0).all()
    close(weights.double().sum(dim=-1), allowed.any(dim=-1).double(), case)
    assert (output[~allowed.any(dim=-1)] == 0).all()
    close(output, weights.double() @ case.value.double(), case)
    close(scores, case.query.double() @ case.key.double().mT / case.key.shape[-1] ** 0.5, case)


@given(cases(dtypes=(torch.float64,)), st.integers(0, 2**32))
@settings(max_examples=75)
def test_gradients_are_torchs(case, seed):
    case = case.map(lambda part: part.requires_grad_())
    expected = torchs_own(case)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gradients = torch.autograd.grad(expected, case[:3], upstream)
    for found, wanted in zip(torch.autograd.grad(attend(*case).output, case[:3], upstream), gradients, strict=True):
        close(found, wanted, case)


@given(cases())
def test_gradients_are_finite_whatever_is_masked(case):
    case = case.map(lambda part: part.requires_grad_())
    attention = attend(*case)
    for result in (attention.output, attention.weights):
        for gradient in torch.autograd.grad(result.square().sum(), case[:3], retain_graph=True, allow_unused=True):
            assert gradient is None or gradient.isfinite().all()


def test_gradient_of_the_weights_is_the_numerical_one():
    random = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, 3, 4, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(3)
    )
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    assert torch.autograd.gradcheck(lambda *qkv: tuple(attend(*qkv, mask)[:2]), (query, key, value))


def test_by_hand():
    """One query that points at the first of two keys: softmax([1, 0] / √2 ...) written out."""
    query = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    key = torch.tensor([[1.0, 5.0], [0.0, 1.0]], dtype=torch.float64)
    value = torch.tensor([[10.0, 0.0, 1.0], [0.0, 20.0, 1.0]], dtype=torch.float64)
    first = math.exp(math.sqrt(2)) / (math.exp(math.sqrt(2)) + 1)  # scores √2 and 0
    output, weights, scores = attend(query, key, value)
    assert scores.tolist() == [[pytest.approx(math.sqrt(2)), 0.0]]
    assert weights.tolist() == [[pytest.approx(first), pytest.approx(1 - first)]]
    assert output.tolist() == [[pytest.approx(10 * first), pytest.approx(20 * (1 - first)), pytest.approx(1)]]
    unscaled = math.exp(2) / (math.exp(2) + 1)
    assert attend(query, key, value, score=dot).weights[0, 0].item() == pytest.approx(unscaled)


def test_leading_dimensions_broadcast():
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(1, 1, 5, 8), torch.randn(3, 5, 6)
    expected = attend(query, key.expand(2, 3, 5, 8), value.expand(2, 3, 5, 6))
    found = attend(query, key, value)
    torch.testing.assert_close(found.output, expected.output)
    torch.testing.assert_close(found.weights, expected.weights)


def test_a_mask_holds_however_low_the_scores_are():
    """Adding a large negative number, as some tutorials do, is not forbidding: here it would choose the wrong key."""
    query, key = torch.tensor([[[1e5]]]), torch.tensor([[[-1e5], [3.0]]])
    value, mask = torch.tensor([[[7.0], [8.0]]]), torch.tensor([True, False])
    assert attend(query, key, value, mask).weights.tolist() == [[[1.0, 0.0]]]
    assert attend(query, key, value, mask).output.tolist() == [[[7.0]]]


def test_what_does_not_fit_is_refused():
    refuses_what_does_not_fit(attend)
