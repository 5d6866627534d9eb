"""Numbers as text: what a page reads is what was packed, and a page keeps to its room."""

import base64
import zlib

import numpy as np
import pytest

from attncli.page.packing import ROOM, SCALES, pack_layers, packed, pick_scale, unpack_layer


@pytest.mark.parametrize("scale", SCALES)
def test_layers_are_read_as_they_were_packed(scale):
    layers = [noise(1, 2, length)[0] for length in (5, 30)]
    for text, layer in zip(pack_layers(layers, scale), layers, strict=True):
        read = unpack_layer(text, layer.shape, scale)
        np.testing.assert_allclose(read, layer, rtol=scale.rest + 1e-6, atol=scale.least(layer.shape[-1]))


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
