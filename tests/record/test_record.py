"""Records: their parts, their heads' vectors, and what is not in them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of
from saved_records import any_records, with_vectors

from attncli import RequestError


@given(record=any_records(), data=st.data())
def test_a_part_of_a_record(record, data):
    layers = data.draw(st.none() | st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    heads = data.draw(st.none() | st.lists(st.sampled_from(record.heads), min_size=1, unique=True))
    part = record.select(layers, heads)
    assert part.layers == (layers or record.layers) and part.heads == (heads or record.heads)
    assert part.tokens == record.tokens and part.mask_name == record.mask_name
    for layer in part.layers:
        assert np.array_equal(part.mask_of(layer), record.mask_of(layer))
        for head in part.heads:
            assert np.array_equal(part.map(layer, head), record.map(layer, head))
    every = record.vectors.heads if record.vectors else []
    staying = [(layer, head) for layer, head in every if layer in part.layers and head in part.heads]
    assert (part.vectors.heads if part.vectors else []) == staying
    for layer, head in staying:
        for found, expected in zip(part.vectors.of(layer, head), record.vectors.of(layer, head), strict=True):
            assert np.array_equal(found, expected)


def test_what_is_not_in_a_record():
    made = record_of(np.full((2, 3, 4, 4), 0.25))
    of = dataclasses.replace(made.model, layers=6, heads=8)
    record = dataclasses.replace(made, layers=[2, 5], heads=[0, 1, 7], model=of)
    assert np.array_equal(record.map(5, 7), record.weights[1, 2])
    with pytest.raises(RequestError, match=r"layer 3 is not in the record: it holds 2,5"):
        record.select([2, 3])
    with pytest.raises(RequestError, match=r"head 2 is not in the record: it holds 0-1,7"):
        record.select(None, [2])
    with pytest.raises(RequestError, match=r"layer 6 is out of range: layers are 0 to 5"):
        record.select("6")
    with pytest.raises(KeyError, match="layer 2, head 5"):
        record.map(2, 5)
    with pytest.raises(KeyError, match="layer 3"):
        record.mask_of(3)
    with pytest.raises(KeyError, match="layer 5, head 1"):
        with_vectors(record, [(5, 7), (2, 1)]).vectors.of(5, 1)


# --- masks ----------------------------------------------------------------------------------------------


@given(record=any_records())
def test_a_mask_a_layer_and_one_where_they_agree(record):
    assert record.masks.dtype == bool and record.masks.shape == (*record.weights.shape[:1], *record.weights.shape[2:])
    for layer, mask in zip(record.layers, record.masks, strict=True):
        assert np.array_equal(record.mask_of(layer), mask)
        assert np.array_equal(record.select(layer).mask, mask)
    if (record.masks == record.masks[0]).all():
        assert np.array_equal(record.mask, record.masks[0])
        assert record.compact_masks.shape == record.mask.shape
        assert record.masks.strides[0] == 0  # no memory of their own
    else:
        assert np.array_equal(record.compact_masks, record.masks)
        with pytest.raises(RequestError, match=r"different masks: use record\.masks, or select layers"):
            _ = record.mask


# --- as it prints ------------------------------------------------------------------------------------------


def test_it_prints_as_one_telling_line(minilm):
    record = minilm.attend("The trophy does not fit.")
    begin = '9 tokens, mask padding: "[CLS] the trophy does not ..."'.replace("9", str(len(record.tokens)))
    assert repr(record) == f"AttentionRecord(minilm, 6 layers x 12 heads, {begin})"
    assert repr(record.select([3], "0-2")) == f"AttentionRecord(minilm, layer 3 of 6, heads 0-2 of 12, {begin})"
