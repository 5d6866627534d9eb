"""A small page: some heads whole, all of them as small maps, in as many characters as it is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import unpack_layer, unpacked
from records import attention_records, cross_records, record_of

from attncli.page.packing import error_of
from attncli.page.payload import LONG, SIDES, SMALL, WHOLE, FullHeads, payload
from attncli.record.display import pool


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
