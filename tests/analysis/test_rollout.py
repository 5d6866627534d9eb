"""Rollout: the paper's definition, and cases computed by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from records import attention_records, cross_records, record_of

from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.base.errors import RequestError


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


def test_a_layer_on_the_way_down_must_be_there():
    record = record_of(np.full((3, 1, 3, 3), 1 / 3))
    with pytest.raises(RequestError, match=r"holds layers 1-2.*without -l"):
        residual_steps(record.select(layers=[1, 2]))


@given(cross_records())
def test_cross_attention_leads_elsewhere(record):
    with pytest.raises(RequestError, match="--which encoder or decoder"):
        residual_steps(record)
