"""Attention against torch's own, over random shapes, masks and dtypes, forward and gradient."""

import torch
from attention_cases import cases, close, refuses_what_does_not_fit, torchs_own
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import attend


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
