"""The network in NumPy: its functions are torch's; that it is the network in torch, `tests/ways.py` shows."""

import math

import numpy as np
import pytest
import torch

from attncli.models import instant


def test_erf_errs_by_less_than_two_tenths_of_a_millionth():
    x = np.concatenate([np.linspace(-6, 6, 200_001), [0.0, -0.0, 100.0, -100.0, np.inf, -np.inf]]).astype(np.float32)
    error = np.abs(instant.erf(x) - [math.erf(one) for one in x.tolist()])
    assert error.max() < 2e-7 and instant.erf(x).dtype == np.float32


@pytest.mark.parametrize("name", instant.FUNCTIONS)
def test_activations_are_torchs(name):
    from attncli.models.network import _FUNCTIONS

    x = np.concatenate([np.linspace(-12, 12, 4001), [-300.0, 300.0]]).astype(np.float32)
    np.testing.assert_allclose(instant.FUNCTIONS[name](x), _FUNCTIONS[name](torch.tensor(x)), rtol=2e-6, atol=1e-6)
    assert {*instant.FUNCTIONS} == {*_FUNCTIONS} - {"none"}


def test_without_heads_torch_has_none_of_them_either(instant):
    assert instant.in_torch() is instant.in_torch()
    silenced = instant.without("3.1")
    assert silenced.in_torch().silenced_heads == [(3, 1)] and instant.in_torch().silenced_heads == []
    ours, theirs = (model.attend("The cat sat.", layers=5).weights for model in (silenced, silenced.in_torch()))
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
