"""Rollout: the paper's definition, cases computed by hand, and records made of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, layered_records, record_of

from attncli import load_record
from attncli.analysis.rollout import mean_maps, reachable, residual_steps, rollout, shares_record
from attncli.base.errors import RequestError


def test_a_case_computed_by_hand():
    """Two tokens, two layers; W_0 looks at token 0 alone, W_1 at both alike."""
    record = record_of([[[[1, 0], [1, 0]]], [[[0.5, 0.5], [0.5, 0.5]]]])
    steps = residual_steps(record)
    np.testing.assert_allclose(steps, [[[1, 0], [0.5, 0.5]], [[0.75, 0.25], [0.25, 0.75]]])
    np.testing.assert_allclose(rollout(steps), [[[1, 0], [0.5, 0.5]], [[0.875, 0.125], [0.625, 0.375]]])


@given(attention_records())
def test_it_is_the_product_of_half_the_mean_map_and_half_the_identity(record):
    steps = residual_steps(record)
    wanted = np.eye(len(record.tokens))
    for layer, rolled in enumerate(rollout(steps)):
        mean = np.mean([record.map(layer, head) for head in record.heads], axis=0, dtype=np.float64)
        wanted = (0.5 * mean + 0.5 * np.eye(len(record.tokens))) @ wanted
        np.testing.assert_allclose(rolled, wanted, atol=1e-6)


@given(attention_records(padding=2))
def test_rows_sum_to_1_and_a_real_token_holds_nothing_of_padding(record):
    rolled = rollout(residual_steps(record))
    np.testing.assert_allclose(rolled.sum(axis=-1), 1)
    assert (rolled[:, :-2, -2:] == 0).all()


@given(attention_records())
def test_a_token_that_attends_to_nothing_stays_what_it_is(record):
    weights, mask = record.weights.copy(), record.mask.copy()
    weights[:, :, 1], mask[1] = 0, False
    silent = replace(record, weights=weights, masks=mask)
    assert (mean_maps(silent)[:, 1] == 0).all()
    np.testing.assert_array_equal(rollout(residual_steps(silent))[:, 1], np.eye(len(record.tokens))[[1] * len(weights)])


@given(attention_records(), st.floats(0.1, 50))
def test_only_the_shares_of_norms_count(record, factor):
    larger = replace(record, weights=record.weights * np.float32(factor))
    np.testing.assert_allclose(residual_steps(larger), residual_steps(record), atol=1e-6)


def test_the_order_of_the_layers_in_a_record_does_not_matter():
    record = record_of(np.random.default_rng(0).dirichlet(np.ones(4), (3, 2, 4)))
    np.testing.assert_array_equal(residual_steps(record.select(layers=[2, 0, 1])), residual_steps(record))


def test_a_layer_on_the_way_down_must_be_there():
    record = record_of(np.full((3, 1, 3, 3), 1 / 3))
    with pytest.raises(RequestError, match=r"holds layers 1-2.*-l all"):
        residual_steps(record.select(layers=[1, 2]))


@given(cross_records())
def test_cross_attention_leads_elsewhere(record):
    with pytest.raises(RequestError, match="--which encoder or decoder"):
        residual_steps(record)


def window(width: int) -> np.ndarray:
    """So many tokens on either side, of 6."""
    return np.abs(np.subtract.outer(range(6), range(6))) <= width


def test_a_window_reaches_further_in_every_layer_and_the_future_stays_hidden():
    np.testing.assert_array_equal(reachable([window(1)] * 5), [window(width) for width in (1, 2, 3, 4, 5)])
    np.testing.assert_array_equal(reachable([window(1), window(2), window(0)]), [window(1), window(3), window(3)])
    np.testing.assert_array_equal(reachable([np.tri(6, k=-1, dtype=bool)] * 3), [np.tri(6, dtype=bool)] * 3)
    np.testing.assert_array_equal(reachable([np.zeros((3, 3), dtype=bool)] * 2), [np.eye(3, dtype=bool)] * 2)


@given(attention_records(padding=1))
def test_a_record_of_shares_says_what_it_is_and_no_share_is_where_the_mask_forbids_it(record):
    shares = {"raw": mean_maps(record), "rollout": rollout(residual_steps(record))}
    made = shares_record(record, record.layers, shares)
    assert made.model.name == "made-up (raw, rollout)" and (made.heads, made.model.heads) == ([0, 1], 2)
    np.testing.assert_allclose(made.weights[:, 1], shares["rollout"], rtol=1e-6)
    assert (made.weights[..., ~made.mask] == 0).all()


@given(layered_records(padding=1), st.data())
def test_the_mask_of_a_layer_of_shares_is_where_its_rollout_can_be(record, data):
    """The layers of the record may lie in any order, and not all may be asked for."""
    layers = data.draw(st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    rolled = rollout(residual_steps(record))
    turned = record.select(layers=data.draw(st.permutations(record.layers)))
    made = shares_record(turned, layers, {"rollout": rolled[layers]})
    np.testing.assert_array_equal(made.masks, rolled[layers] > 0)


def test_a_record_of_shares_is_saved_and_loaded(tmp_path):
    record = record_of(np.full((2, 3, 4, 4), 1 / 4))
    made = shares_record(record, [1], {"rollout": rollout(residual_steps(record))[[1]]})
    made.save(tmp_path / "rollout.safetensors")
    loaded = load_record(tmp_path / "rollout.safetensors")
    np.testing.assert_array_equal(loaded.weights, made.weights)
    assert (loaded.model, loaded.layers, loaded.heads) == (made.model, [1], [0])
