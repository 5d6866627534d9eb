"""Numbers as text: what a page reads is what was packed, within the error that is told, in the room of a page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import unpack_layer

from attncli.page.packing import (
    LEVELS,
    ROOM,
    error_of,
    pack_layer,
    pack_layers,
    pick_levels,
)


@st.composite
def layers(draw):
    """Rows of a softmax, from uniform ones to one that has all, with what a mask hides."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 40)))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = numbers.normal(size=shape) * draw(st.sampled_from([0, 0.01, 1, 5, 40]))
    scores[numbers.random(shape) < draw(st.sampled_from([0, 0.5]))] = -np.inf
    raised = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), -1e30))
    return (raised / np.maximum(raised.sum(axis=-1, keepdims=True), 1e-30)).astype(np.float32)


@given(layers(), st.sampled_from([1, 255, 256, *LEVELS]))
def test_what_is_told_of_stored_weights_holds(layer, levels):
    found = unpack_layer(pack_layer(layer, levels), layer.shape, levels)
    tops = layer.max(axis=(1, 2), keepdims=True)
    assert (np.abs(found - layer) <= tops * (error_of(levels) + 1e-6)).all()
    order = np.argsort(layer, axis=-1)
    assert (np.diff(np.take_along_axis(found, order, axis=-1), axis=-1) >= 0).all()
    assert (found[layer == 0] == 0).all() and np.allclose(found.max(axis=(1, 2), keepdims=True), tops, rtol=1e-6)


def noise(layers, heads, length):
    """Maps that compress badly: nothing in them can be foreseen."""
    weights = np.random.default_rng(0).random((layers, heads, length, length), dtype=np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("length", [14, 60, 128, 300])
def test_the_levels_that_are_picked_keep_to_the_room_of_a_page(length):
    maps = noise(3, 4, length)
    levels = pick_levels([maps])
    taken = sum(len(text) for text in pack_layers(list(maps), levels))
    room = next(room for most, room in ROOM if maps.size <= most)
    assert levels == LEVELS[-1] or taken <= 1.05 * room * maps.size  # a part of each layer is tried


def test_all_texts_of_a_page_count():
    assert pick_levels([noise(1, 2, 16)]) == LEVELS[0] > pick_levels([noise(1, 2, 16)] * 800)
