"""Two records beside each other: nothing is different from itself, and which one is first hardly matters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from records import attention_records, layered_records, record_of

from attncli.analysis.difference import difference, largest_cells
from attncli.base.errors import RequestError


@st.composite
def pairs(draw, padding=0):
    """Two records of one shape."""
    first = draw(attention_records(padding))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = numbers.random(first.weights.shape, dtype=np.float32) * first.mask
    return first, replace(first, weights=weights / weights.sum(axis=-1, keepdims=True))


@given(pairs(padding=2))
def test_moved_is_half_the_sum_of_differences_averaged_over_real_queries(both):
    found = difference(*both)
    for layer, head in found.heads():
        change = np.abs(both[0].map(layer, head).astype(float) - both[1].map(layer, head))[:-2]
        assert found.of(layer, head) == pytest.approx(change.sum() / 2 / len(change))
        assert 0 <= found.of(layer, head) <= 1 + 1e-6
    ordered = [found.of(layer, head) for layer, head in found.heads()]
    assert ordered == sorted(ordered, reverse=True) and len(ordered) == found.moved.size


@given(pairs(padding=1), st.integers(1, 12))
def test_no_cell_differs_more_than_the_largest_and_none_is_a_paddings(both, count):
    cells = largest_cells(difference(*both), count)
    change = np.abs(both[1].weights - both[0].weights)[:, :, :-1]
    largest = np.sort(change[change > 0])[::-1][:count]
    np.testing.assert_allclose([abs(cell.change) for cell in cells], largest, atol=1e-7)
    for cell in cells:
        assert cell.first == both[0].map(cell.layer, cell.head)[cell.query, cell.key]
        assert cell.second == both[1].map(cell.layer, cell.head)[cell.query, cell.key]


@given(layered_records(padding=1))
def test_a_query_counts_in_the_layers_whose_masks_let_it_attend_to_something(first):
    second = replace(first, weights=first.weights[::-1], masks=first.masks[::-1])
    found = difference(first, second)
    cells = []
    for layer in found.first.layers:
        alone = difference(first.select(layer), second.select(layer))
        assert [found.of(layer, head) for head in alone.first.heads] == alone.moved[0].tolist()
        cells += largest_cells(alone, found.moved.size * 100)
    assert sorted(cells, key=repr) == sorted(largest_cells(found, len(cells) + 1), key=repr)


@given(pairs())
def test_only_layers_and_heads_of_both_are_compared_by_their_numbers(both):
    first, second = both
    assume(len(first.layers) > 1 and len(first.heads) > 1)
    found = difference(first.select(layers=[1, 0]), second.select(layers=[1], heads=[1]))
    assert (found.first.layers, found.first.heads) == ([1], [1])
    assert found.of(1, 1) == pytest.approx(difference(first, second).of(1, 1), abs=1e-12)


def test_what_does_not_stand_beside_each_other_is_refused():
    record = record_of(np.full((2, 1, 3, 3), 1 / 3))
    with pytest.raises(RequestError, match="3 tokens and the other 4"):
        difference(record, record_of(np.full((2, 1, 4, 4), 1 / 4)))
    with pytest.raises(RequestError, match=r"no head in common: one holds layer 0, head .*, the other layer 1, head"):
        difference(record.select(layers=0), record.select(layers=1))
