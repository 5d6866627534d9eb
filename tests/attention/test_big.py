"""Attention against torch's own, over random shapes, masks and dtypes, forward and gradient."""

import math
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import attend, attend_into, attend_output, dot

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Case(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None

    def map(self, change) -> "Case":
        return Case(change(self.query), change(self.key), change(self.value), self.mask)

    def rounding(self) -> float:
        """How far the dtype may take a result: a score is off by some of its units in the last place, and the
        exponential makes of that a share of the weight.
        """
        query, key, value = (part.detach().double() for part in self[:3])
        scores = (query @ key.mT).abs().max().item() / key.shape[-1] ** 0.5
        return 4 * torch.finfo(self.query.dtype).eps * (1 + scores) * (1 + value.abs().max().item())


sizes = st.integers(1, 7)


@st.composite
def cases(draw, dtypes=DTYPES, leading=None) -> Case:
    """Queries, keys and values of any shapes that fit together; a mask of any shape that broadcasts."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3)) if leading is None else draw(leading)
    queries, keys, d_k, d_v = draw(sizes), draw(sizes), draw(sizes), draw(sizes)
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.1, 1.0, 3.0]))

    def tensor(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=random, dtype=torch.float64)

    whole = (*leading, queries, keys)
    shape = draw(st.sampled_from([None, (), (keys,), (1, keys), (queries, 1), whole[-2:], whole[-3:], whole]))
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))  # of what may be attended to
    mask = None if shape is None else torch.rand(shape, generator=random) < share
    case = Case(tensor(*leading, queries, d_k), tensor(*leading, keys, d_k), tensor(*leading, keys, d_v), mask)
    dtype = draw(st.sampled_from(dtypes))
    return case.map(lambda part: part.to(dtype))


def torchs_own(case: Case) -> Tensor:
    """torch's attention in float64; a row that may attend to nothing, which torch leaves open, is 0."""
    query, key, value, mask = case.map(lambda part: part.double())
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value)
    mask = mask.expand(*query.shape[:-1], key.shape[-2])
    somewhere = mask.any(dim=-1, keepdim=True)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask | ~somewhere) * somewhere


def close(found: Tensor, expected: Tensor, case: Case) -> None:
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=case.rounding() * scale)


@given(cases())
@settings(max_examples=3000)
def test_output_is_torchs(case):
    expected, dtype = torchs_own(case), case.query.dtype
    for output in (attend(*case).output, attend_output(*case)):
        assert output.dtype == dtype and output.shape == expected.shape
        close(output, expected, case)


@given(cases())
@settings(max_examples=3000)
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


@given(cases(leading=st.tuples(st.integers(1, 4))))
def test_writing_into_storage_is_the_same(case):
    output, weights, _ = attend(*case)
    kept = torch.full_like(weights, torch.nan)
    found = attend_into(kept, *case)
    close(kept, weights, case)
    close(found, output, case)
    if case.mask is not None:
        assert (kept[~case.mask.expand_as(kept)] == 0).all()


@given(cases(dtypes=(torch.float64,)), st.integers(0, 2**32))
@settings(max_examples=3000)
def test_gradients_are_torchs(case, seed):
    case = case.map(lambda part: part.requires_grad_())
    expected = torchs_own(case)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gradients = torch.autograd.grad(expected, case[:3], upstream)
    for output in (attend(*case).output, attend_output(*case)):
        for found, wanted in zip(torch.autograd.grad(output, case[:3], upstream), gradients, strict=True):
            close(found, wanted, case)


@given(cases())
def test_gradients_are_finite_whatever_is_masked(case):
    case = case.map(lambda part: part.requires_grad_())
    attention = attend(*case)
    for result in (attention.output, attention.weights, attend_output(*case)):
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


def test_equal_keys_share_equally_and_a_single_key_takes_all():
    query, key, value = torch.randn(3, 4), torch.ones(5, 4), torch.randn(5, 2)
    torch.testing.assert_close(attend(query, key, value).weights, torch.full((3, 5), 0.2))
    only = torch.zeros(3, 5, dtype=torch.bool)
    only[:, 2] = True
    torch.testing.assert_close(attend(query, key, value, only).output, value[2].expand(3, 2))


def test_leading_dimensions_broadcast():
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(1, 1, 5, 8), torch.randn(3, 5, 6)
    expected = attend(query, key.expand(2, 3, 5, 8), value.expand(2, 3, 5, 6))
    found = attend(query, key, value)
    torch.testing.assert_close(found.output, expected.output)
    torch.testing.assert_close(found.weights, expected.weights)
    torch.testing.assert_close(attend_output(query, key, value), expected.output)


def test_large_scores_do_not_overflow():
    query = torch.tensor([[1e4, 0.0]])
    key = torch.tensor([[1e4, 0.0], [-1e4, 0.0]])
    assert attend(query, key, torch.eye(2)).output.tolist() == [[1.0, 0.0]]


def test_a_mask_holds_however_low_the_scores_are():
    """Adding a large negative number, as some tutorials do, is not forbidding: here it would choose the wrong key."""
    query, key = torch.tensor([[[1e5]]]), torch.tensor([[[-1e5], [3.0]]])
    value, mask, weights = torch.tensor([[[7.0], [8.0]]]), torch.tensor([True, False]), torch.empty(1, 1, 2)
    assert attend(query, key, value, mask).weights.tolist() == [[[1.0, 0.0]]]
    assert attend_output(query, key, value, mask).tolist() == [[[7.0]]]
    assert attend_into(weights, query, key, value, mask).tolist() == [[[7.0]]]
    assert weights.tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("function", [attend, attend_output])
def test_what_does_not_fit_is_refused(function):
    query, key, value = torch.randn(2, 3), torch.randn(4, 3), torch.randn(5, 3)
    with pytest.raises(ValueError, match="4 keys, 5 values"):
        function(query, key, value)
    for mask in (torch.zeros(2, 5), torch.ones(2, 5, dtype=torch.int64)):
        with pytest.raises(ValueError, match=rf"boolean.*{mask.dtype}"):
            function(query, value, value, mask)
