"""The network in NumPy against the one in torch: every family that has one, all masks, and what users get."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, PECULIAR, make_config, make_network
from hypothesis import given, settings
from hypothesis import strategies as st
from slow import slow_except
from walks import made_up, network_of, walked

from attncli.attention import MASKS
from attncli.models import instant
from attncli.models.config import ModelConfig
from attncli.models.rows import arrange
from attncli.models.taps import Maps, QueriesAndKeys
from attncli.models.walk import walk
from attncli.models.weights import Checkpoint, StateDict, check_shapes
from attncli.record import formula

PLAIN = [family for family in FAMILIES if instant.why_not(ModelConfig.from_dict(make_config(family).to_dict())) is None]
NEAR = 1e-4  # of the largest number: gated products of large random weights amplify the rounding of float32


def in_numpy(theirs: Any) -> instant.NumpyNetwork:
    """The network in NumPy, with what transformers' network holds."""
    config = ModelConfig.from_dict(theirs.config.to_dict())
    tensors = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    checkpoint, network = (
        Checkpoint([StateDict(tensors)], "a network", config.family.prefixes),
        instant.NumpyNetwork(config),
    )
    assert check_shapes(checkpoint, network) == []
    for part in network.parts_of(config.layers):
        instant.load_parameters(checkpoint, network, part)
    return network


def walked_in_numpy(network, texts, mask, heads=(), positions=True):
    """Weights, states and vectors of each text, as `walked` gives them in torch."""
    config = network.config
    rows = arrange(
        texts,
        config,
        lambda real: instant.layer_masks(real, config, mask),
        lambda array: array,
        formula.no_padding in formula.MASKS[mask],
        positions,
    )
    new = lambda shape: np.empty(shape, np.float32)  # noqa: E731
    maps = Maps(rows.runs, range(config.layers), range(config.heads), new)
    vectors = QueriesAndKeys(rows.runs, heads, config.head_dim, new)
    states = [rows.texts(x) for x in walk(network, rows, [maps, vectors])]
    kept = rows.in_order(np.stack(one).swapaxes(0, 1) for one in vectors.kept)
    return rows.in_order(maps.kept), [np.stack(one) for one in zip(*states, strict=True)], kept


@pytest.mark.parametrize("family", slow_except(PLAIN, PECULIAR))
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_weights_states_and_vectors_are_those_in_torch(family, data):
    theirs = make_network(make_config(family), seed=data.draw(st.integers(0, 3), "seed"))
    network, ours = network_of(theirs, torch.float64), in_numpy(theirs)
    config, mask = network.config, data.draw(st.sampled_from(list(MASKS)), "mask")
    texts = []
    for _ in range(data.draw(st.integers(1, 4), "texts")):
        length = data.draw(st.integers(1, 20), "tokens")
        ids = data.draw(st.lists(st.integers(2, config.vocab_size - 1), min_size=length, max_size=length), "ids")
        real = data.draw(st.lists(st.booleans(), min_size=length, max_size=length), "real")
        segments = data.draw(st.lists(st.integers(0, max(0, config.segments - 1)), min_size=length, max_size=length))
        texts.append(made_up(ids, real, segments))
    heads = [(0, 1), (config.layers - 1, 0)]
    expected = walked(network, texts, mask, vectors=heads, whole=True)
    found = walked_in_numpy(ours, texts, mask, heads)
    for ones, others in zip(found, expected, strict=True):
        for one, other in zip(ones, others, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=NEAR * max(1, float(other.abs().max())))


# --- functions ------------------------------------------------------------------------------------------


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
    assert instant.awake() is instant.awake()
    silenced = instant.without("3.1")
    assert silenced.awake().silenced_heads == [(3, 1)] and instant.awake().silenced_heads == []
    ours, theirs = (model.attend("The cat sat.", layers=5).weights for model in (silenced, silenced.awake()))
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
