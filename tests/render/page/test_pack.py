"""Numbers as text: what a page reads is what was packed, to the error that it admits."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.render.page.pack import ROOM, SCALES, Scale, level_bytes, pack_layers, packed, pick_scale, unpack_layer

scales = st.sampled_from(SCALES)


@given(scales, st.lists(st.floats(0, 1, width=32), min_size=1, max_size=60))
def test_a_stored_weight_is_within_the_error_of_the_true_one(scale, weights):
    layer = np.array(weights, dtype=np.float32).reshape(1, 1, -1)
    [text] = pack_layers([layer], scale)
    assert np.abs(unpack_layer(text, layer.shape, scale) - layer).max() <= scale.error + 1e-7


@pytest.mark.parametrize("scale", SCALES)
def test_no_scale_stores_a_weight_worse_than_the_promise(scale):
    every = np.linspace(0, 1, 100_001, dtype=np.float32).reshape(1, 1, -1)
    [text] = pack_layers([every], scale)
    worst = np.abs(unpack_layer(text, every.shape, scale) - every).max()
    assert worst <= 0.002
    assert worst == pytest.approx(scale.error, rel=0.02)


@given(scales)
def test_nothing_and_everything_are_stored_exactly(scale):
    layer = np.array([[[0.0, 1.0]]], dtype=np.float32)
    [text] = pack_layers([layer], scale)
    assert unpack_layer(text, layer.shape, scale).tolist() == [[[0.0, 1.0]]]


@given(scales, st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 9))
def test_maps_keep_their_heads_queries_and_keys(scale, seed, heads, length):
    layer = np.random.default_rng(seed).random((heads, length, length), dtype=np.float32)
    [text] = pack_layers([layer], scale)
    assert np.abs(unpack_layer(text, layer.shape, scale) - layer).max() <= scale.error + 1e-7


def test_low_bytes_stand_before_high_ones():
    layer = np.array([[[0.0, 1.0]]], dtype=np.float32)
    assert level_bytes(layer, Scale(0x1234, 1)) == bytes([0x00, 0x34, 0x00, 0x12])


def test_a_weight_that_rounding_put_above_one_is_one():
    layer = np.array([[[1.0000001]]], dtype=np.float32)
    [text] = pack_layers([layer], SCALES[0])
    assert unpack_layer(text, layer.shape, SCALES[0]).item() == 1.0


def test_packed_is_base64_of_a_zlib_stream():
    assert zlib.decompress(base64.b64decode(packed(b"attention"))) == b"attention"


def noise(layers, heads, length):
    """Maps that compress badly: nothing in them can be foreseen."""
    weights = np.random.default_rng(0).random((layers, heads, length, length), dtype=np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.slow
def test_few_weights_are_stored_finely_and_many_coarsely():
    assert pick_scale([noise(2, 2, 14)]) == SCALES[0]
    assert SCALES.index(pick_scale([noise(6, 12, 128)])) == 1
    assert SCALES.index(pick_scale([noise(2, 12, 640)])) > 1


@pytest.mark.parametrize("length", [60, 128, 300])
def test_the_scale_that_is_picked_keeps_to_its_room(length):
    maps = noise(3, 12, length)
    scale = pick_scale([maps])
    taken = sum(len(text) for text in pack_layers(list(maps), scale))
    room = next(room for most, room in ROOM if maps.size <= most)
    assert scale == SCALES[-1] or taken <= 1.05 * room * maps.size  # one layer of six is tried


def test_all_texts_of_a_page_count():
    few, many = [noise(1, 2, 16)], [noise(1, 2, 16)] * 800
    assert SCALES.index(pick_scale(few)) < SCALES.index(pick_scale(many))
