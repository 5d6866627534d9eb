"""Attention and its normalisers against torch's own, over random shapes, masks and dtypes, forward and gradient."""

import math

import pytest
import torch
from attention_cases import cases, close, refuses_what_does_not_fit, torchs_own
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import NORMALISERS, attend, dot, hard_max, hard_sample, masked_softmax


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


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(
    st.sampled_from(sorted(NORMALISERS)),
    seeds,
    st.lists(sizes, max_size=2),
    sizes,
    sizes,
    st.sampled_from([0.0, 0.3, 0.8, 1.0]),
)
def test_rows_sum_to_one_or_are_nothing_and_respect_the_mask(name, seed, leading, queries, keys, share):
    scores = drawn(seed, *leading, queries, keys)
    mask = torch.rand(*leading, queries, keys, generator=torch.Generator().manual_seed(seed)) < share
    weights = NORMALISERS[name](scores, mask)
    assert weights.shape == scores.shape and weights.dtype == scores.dtype
    assert (weights[~mask] == 0).all() and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), mask.any(dim=-1).double())


def test_a_temperature_by_hand():
    scores = torch.tensor([[0.0, 2.0]]).log1p().double()  # exp: 1 and 3
    torch.testing.assert_close(masked_softmax(scores), torch.tensor([[0.25, 0.75]]).double())
    torch.testing.assert_close(masked_softmax(scores, temperature=0.5), torch.tensor([[0.1, 0.9]]).double())  # 1 and 9


@given(seeds)
def test_low_temperatures_lead_to_the_maximum_and_high_ones_to_all_alike(seed):
    scores = drawn(seed, 4, 6)
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(seed)) < 0.7
    scores = scores.argsort(dim=-1).argsort(dim=-1).double()  # whole numbers, no two alike
    torch.testing.assert_close(masked_softmax(scores, mask, 0.01), hard_max(scores, mask), atol=1e-6, rtol=0)
    uniform = mask.double() / mask.sum(dim=-1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(masked_softmax(scores, mask, 1e6), uniform, atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [0, -1.0])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="a temperature must be positive"):
        masked_softmax(torch.zeros(1, 2), None, temperature)


def test_of_several_highest_keys_the_first_is_taken():
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [[0, 1, 0]]
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]]), torch.tensor([True, False, True])).tolist() == [[0, 0, 1]]


def test_the_expectation_of_a_sample_is_soft_attention():
    scores = torch.tensor([[0.0, 1.0, 2.0, -1.0], [3.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, True], [False, True, True, False]])
    count = 40_000
    generator = torch.Generator().manual_seed(0)
    mean = hard_sample(scores.expand(count, 2, 4), mask, generator).mean(dim=0)
    soft = masked_softmax(scores, mask)
    assert (mean - soft).abs().max() < 5 * 0.5 / count**0.5  # five standard errors of the widest coin
    torch.testing.assert_close(mean[1], torch.tensor([0.0, 0.5, 0.5, 0.0]).double(), atol=0.02, rtol=0)


def test_a_seed_draws_the_same_again():
    scores = drawn(1, 50, 9)
    one, again = (hard_sample(scores, None, torch.Generator().manual_seed(7)) for _ in range(2))
    other = hard_sample(scores, None, torch.Generator().manual_seed(8))
    assert torch.equal(one, again) and not torch.equal(one, other)


@pytest.mark.parametrize("name", NORMALISERS)
def test_all_go_through_the_one_attend(name):
    torch.manual_seed(0)
    q, k, v = drawn(0, 4, 3), drawn(1, 5, 3), drawn(2, 5, 2)
    output, weights, _ = attend(q, k, v, normalise=NORMALISERS[name])
    torch.testing.assert_close(output, weights @ v)
    if name != "softmax":
        assert all(any(torch.equal(row, value) for value in v) for row in output)
