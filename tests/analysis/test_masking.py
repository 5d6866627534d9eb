"""How much weight a mask moves, and where weight may not be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from records import attention_records, layered_records, record_of

from attncli.analysis.masking import leak_to_padding, mask_effects, total_variation


def test_total_variation_by_hand():
    some = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    more = np.array([[0, 1, 0], [0.5, 0.5, 0], [0.5, 0.3, 0.2]], dtype=np.float32)
    assert total_variation(some, more) == pytest.approx([1, 0, 0.3])


@given(attention_records(), attention_records())
def test_total_variation_is_a_distance_up_to_one(some, more):
    length = min(len(some.tokens), len(more.tokens))
    a, b = (
        one.weights[0, 0, :length, :length] / one.weights[0, 0, :length, :length].sum(axis=-1, keepdims=True)
        for one in (some, more)
    )
    assert total_variation(a, a).max() == 0
    assert total_variation(a, b) == pytest.approx(total_variation(b, a))
    assert total_variation(a, b).max() <= 1 + 1e-6


@given(attention_records())
def test_taking_the_future_away_moves_exactly_its_weight(record):
    """Under a mask that is applied afterwards, what moves is what stood on the hidden positions."""
    length = len(record.tokens)
    mask = np.tri(length, dtype=bool)
    hidden = np.where(mask, 0, record.weights)
    kept = np.where(mask, record.weights, 0)
    masked = record_of(kept / kept.sum(axis=-1, keepdims=True), mask=mask, mask_name="causal")
    for (layer, head), effect in mask_effects(masked, record).items():
        assert effect.forbidden == 0
        assert effect.moved == pytest.approx(float(hidden[layer, head].sum(axis=-1).mean()), abs=1e-5)


@given(layered_records(padding=1))
def test_every_layer_is_held_against_its_own_mask(record):
    unmasked = replace(record, weights=np.full_like(record.weights, 1 / len(record.tokens)))
    effects = mask_effects(record, unmasked)
    for layer in record.layers:
        alone = mask_effects(record.select(layer), unmasked.select(layer))
        assert {head: effects[head] for head in alone} == alone
        assert all(effect.forbidden == 0 for effect in alone.values())
        hides_all = not record.mask_of(layer)[:-1].any()
        assert all((effect.moved == 0) == hides_all for effect in alone.values())


def test_weight_on_a_position_that_another_layer_allows_is_forbidden():
    masks = np.stack([np.ones((4, 4), dtype=bool), np.tri(4, dtype=bool)])
    record = record_of(np.full((2, 1, 4, 4), 0.25), masks)
    effects = mask_effects(record, record)
    assert (effects[0, 0].forbidden, effects[1, 0].forbidden) == (0, 6 * 0.25)


def test_weight_on_forbidden_positions_is_found():
    weights = np.full((4, 4), 0.25)
    record = record_of(weights, mask=np.tri(4, dtype=bool), mask_name="causal")
    [effect] = mask_effects(record, record).values()
    assert effect.forbidden == pytest.approx(6 * 0.25)
    assert effect.moved == 0


def test_leak_to_padding_counts_real_queries_only():
    weights = np.full((6, 6), 1 / 6)
    weights[4:] = [0, 0, 0, 0, 0.5, 0.5]
    assert leak_to_padding(record_of(weights, padding=2)) == pytest.approx({0: 2 / 6})


def test_what_goes_to_a_sink_is_weight_that_moves_too():
    """As if the rest of each row were one more key."""
    some, more = np.array([[0.5, 0.2], [0.1, 0.1]]), np.array([[0.25, 0.1], [0.6, 0.1]])
    whole = [np.column_stack([rows, 1 - rows.sum(axis=1)]) for rows in (some, more)]
    assert total_variation(some, more, sinks=True) == pytest.approx(total_variation(*whole))
    assert total_variation(some, more, sinks=True)[0] != pytest.approx(total_variation(some, more)[0])
