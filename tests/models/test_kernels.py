"""The fast forms of attention against the formula, over random shapes, masks and dtypes."""

from functools import partial

import pytest
import torch
from attention_cases import cases, close, refuses_what_does_not_fit, torchs_own
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.attention import attend
from attncli.models.weighing import attend_into, attend_output, formula_of


@given(cases())
@settings(max_examples=150)
def test_the_output_alone_is_that_of_the_formula(case):
    output = attend_output(*case)
    expected = attend(*case).output
    assert output.dtype == expected.dtype and output.shape == expected.shape
    close(output, expected, case)
    close(output, torchs_own(case), case)


@given(cases(leading=st.lists(st.integers(1, 4), min_size=1, max_size=2)))
@settings(max_examples=100)
def test_writing_into_storage_is_the_same(case):
    output, weights, _ = attend(*case)
    kept = torch.full_like(weights, torch.nan)
    found = attend_into(kept, *case)
    close(kept, weights, case)
    close(found, output, case)
    if case.mask is not None:
        assert (kept[~case.mask.expand_as(kept)] == 0).all()


@given(cases(dtypes=(torch.float64,)), st.integers(0, 2**32))
def test_gradients_of_the_output_are_those_of_the_formula_and_finite(case, seed):
    case = case.map(lambda part: part.requires_grad_())
    expected, output = attend(*case).output, attend_output(*case)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    wanted, found = (torch.autograd.grad(one, case[:3], upstream) for one in (expected, output))
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        close(one, other, case)


@pytest.mark.parametrize(
    "function", [attend_output, lambda *case: attend_into(torch.empty(2, case[1].shape[-2]), *case)]
)
def test_what_does_not_fit_is_refused(function):
    refuses_what_does_not_fit(function)


@given(st.integers(0, 99), st.booleans(), st.booleans(), st.booleans())
def test_softcap_terms_and_sinks_by_hand(seed, capped, sunk, masked):
    """exp(s) / (Σ exp(s) + exp(sink)) with s = c tanh(q·k scale / c) + term, in both forms."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    query, key, value, term, sinks = draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 7), draw(1, 3, 4, 6), draw(3)
    mask = draw(2, 1, 4, 6) > 0 if masked else None
    softcap, sink = (1.5 if capped else None), (sinks if sunk else None)
    scores = query @ key.mT * 0.7
    scores = (1.5 * torch.tanh(scores / 1.5) if capped else scores) + term
    made = scores.exp() if mask is None else scores.exp() * mask
    total = made.sum(-1, keepdim=True) + (sinks.exp()[:, None, None] if sunk else 0)
    expected = made / total.where(total > 0, 1)
    kept = torch.empty_like(expected)
    output = attend_into(kept, query, key, value, mask, 0.7, [term], softcap, sink)
    formula = attend(query, key, value, mask, *formula_of(0.7, [term], softcap, sink))
    for weights in (kept, formula.weights):
        torch.testing.assert_close(weights, expected)
    for one in (output, formula.output):
        torch.testing.assert_close(one, expected @ value)
