"""The contents of a page: numbers as text, heads that are kept whole, its size and its start."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import unpack_layer, unpacked
from records import attention_records, cross_records, record_of

from attncli.analysis.edges import Usual, edges
from attncli.base.errors import RequestError
from attncli.page import Start
from attncli.page.packing import (
    LEVELS,
    ROOM,
    error_of,
    pack_layer,
    pack_layers,
    pick_levels,
)
from attncli.page.payload import LONG, SIDES, SMALL, WHOLE, FullHeads, findings_entry, payload
from attncli.record.display import pool

# --- numbers as text -------------------------------------------------------------------------------------


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


# --- heads that are kept ---------------------------------------------------------------------------------


def every_head(record):
    return [(layer, head) for layer in record.layers for head in record.heads]


@given(record=attention_records() | cross_records(), side=st.sampled_from([2, 3, 64]), data=st.data())
def test_whole_heads_and_small_maps_are_the_records(record, side, data):
    heads = data.draw(st.lists(st.sampled_from(every_head(record)), unique=True))
    description, chunks = payload([record], {}, FullHeads(heads, side))
    [entry] = description["texts"][0]["masks"]
    assert description["whole"] == [sorted(head for of, head in heads if of == layer) for layer in record.layers]
    small = entry["small"]
    for place, layer in enumerate(record.layers):
        shape = (len(description["whole"][place]), *record.weights.shape[2:])
        whole = unpack_layer(chunks[entry["maps"][place]], shape, WHOLE)
        for found, head in zip(whole, description["whole"][place], strict=True):
            true = record.map(layer, head)
            np.testing.assert_allclose(found, true, atol=error_of(WHOLE) + 1e-6)
        shape = (len(record.heads), small["rows"], small["columns"])
        for found, head in zip(unpack_layer(chunks[small["maps"][place]], shape, SMALL), record.heads, strict=True):
            true = pool(record.map(layer, head), side, side)
            np.testing.assert_allclose(found, true, atol=error_of(SMALL) + 1e-6)


@pytest.mark.parametrize("room", [2_000, 30_000, 60_000, 10_000_000])
def test_as_much_as_there_is_room_for_in_the_order_of_the_ranks(room, random_maps):
    record = record_of(random_maps(3, 4, 80))
    ranked = every_head(record)[::-1]
    kept = FullHeads.within(record, ranked, room)
    _, chunks = payload([record], {}, kept)
    assert kept.heads == ranked[: len(kept.heads)] and kept.side in SIDES
    assert sum(map(len, chunks.values())) <= room or not kept.heads
    assert (len(kept.heads) == 12) == (room > 1_000_000)
    assert all(room > 2_000 for _ in kept.heads)


@pytest.mark.parametrize(("tokens", "has"), [(LONG, False), (LONG + 1, True)])
def test_a_page_of_a_long_text_has_small_maps_beside_the_whole_ones(random_maps, tokens, has):
    seen = np.tri(tokens, dtype=bool)
    weights = random_maps(2, 2, tokens) * seen
    record = record_of(weights / weights.sum(axis=-1, keepdims=True), seen, "causal")
    description, chunks = payload([record], {})
    [entry] = description["texts"][0]["masks"]
    assert "whole" not in description and ("small" in entry) == has
    if has:
        small = entry["small"]
        bits = np.frombuffer(unpacked(chunks[small["allowed"]]), np.uint8)
        assert np.array_equal(np.unpackbits(bits).reshape(96, 96), pool(seen.astype(np.float32), 96, 96))
        for layer, name in zip(record.weights, small["maps"], strict=True):
            true = np.stack([pool(one, 96, 96) for one in layer])
            found = unpack_layer(chunks[name], true.shape, SMALL)
            np.testing.assert_allclose(found, true, atol=error_of(SMALL) + 1e-6)


# --- its start -------------------------------------------------------------------------------------------


RECORD = record_of(np.full((5, 5), 0.2))


def opening(start, record):
    return start.opening(record, findings_entry(record)["heads"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"view": "tree"}, "no view 'tree': use one of heads, model, matrix, neuron"),
        ({"threshold": 1.5}, "threshold 1.5 is out of range"),
        ({"segments": "AC"}, "no segments 'AC'"),
        ({"query": "dog"}, "no token 'dog'"),
        ({"segments": "AB"}, "no second segment"),
        ({"head": (1, 0)}, "head 1.0 is not in this record, which has layer 0, head 0"),
    ],
)
def test_a_page_can_not_open_with_what_there_is_not(options, says):
    with pytest.raises(RequestError, match=re.escape(says)):
        start = Start(**options)
        opening(start, RECORD)
        start.state(RECORD)


def test_a_token_is_found_by_its_name_and_segments_in_any_case():
    assert Start(query="cat").state(RECORD)["token"] == 1
    assert "token" not in Start().state(RECORD)
    assert Start(segments="ab").state(None)["segments"] == "AB"


def test_it_opens_on_the_head_that_run_would_put_first(random_maps):
    record = record_of(random_maps(3, 4, 9))
    first = edges(record, Usual.of_text(record))[0][0]
    assert (first.layer, first.head) != (0, 0)
    assert opening(Start(), record) == {
        "layer": first.layer,
        "head": first.head,
        "heads": [first.head],
        "token": first.query,
    }
    assert opening(Start(head=(2, 3)), record) == {"layer": 2, "head": 3, "heads": [3]}
    alike = record_of(np.full((2, 3, 5, 5), 0.2))  # no head stands out: the first of the last layer
    assert opening(Start(), alike) == {"layer": 1, "head": 0, "heads": [0]}
