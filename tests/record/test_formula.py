"""Masks and softmax in NumPy give what attention's own, in torch, gives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import MASKS, Window, masked_softmax, self_mask
from attncli.record import formula

REAL = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3)


@pytest.mark.parametrize("name", MASKS)
@given(real=REAL, reach=st.none() | st.integers(0, 5))
def test_named_masks_and_windows(name, real, reach):
    real = torch.tensor(real)
    near, window = ([], []) if reach is None else ([formula.near(reach)], [Window(reach)])
    found = formula.self_mask(real.numpy(), *formula.MASKS[name], *near)
    expected = self_mask(real, *MASKS[name], *window)
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    assert set(formula.MASKS) == set(MASKS)


@given(
    seed=st.integers(0, 99),
    size=st.sampled_from([0.0, 1.0, 1e30]),
    masked=st.booleans(),
    sink=st.none() | st.sampled_from([-np.inf, 0.0, 3.0]),
)
def test_softmax_with_a_mask_and_a_sink_as_one_more_key(seed, size, masked, sink):
    generator = np.random.default_rng(seed)
    scores = (size * generator.normal(size=(2, 4, 5))).astype(np.float32)
    allowed = generator.random((4, 5)) < 0.5 if masked else None
    found = formula.softmax(scores, allowed, None if sink is None else np.full((2, 1, 1), sink, np.float32))
    column = np.full((2, 4, 1), -np.inf if sink is None else sink, np.float32)
    every = np.concatenate([np.ones((4, 5), bool) if allowed is None else allowed, np.ones((4, 1), bool)], axis=-1)
    whole = torch.tensor(np.concatenate([scores, column], axis=-1))
    expected = masked_softmax(whole, torch.tensor(every) & ~whole.isneginf())
    assert found.weights.dtype == np.float32
    np.testing.assert_allclose(found.weights, expected[..., :-1], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((found.sink / np.maximum(found.total, 1e-30))[..., 0], expected[..., -1], atol=1e-6)
