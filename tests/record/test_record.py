"""Records: their parts, their heads' vectors, and what is not in them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of
from saved_records import records_of_models, with_vectors

from attncli import RequestError
from attncli.record.selection import number_list


@given(record=records_of_models, data=st.data())
def test_a_part_of_a_record(record, data):
    layers = data.draw(st.none() | st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    heads = data.draw(st.none() | st.lists(st.sampled_from(record.heads), min_size=1, unique=True))
    part = record.select(layers, heads)
    assert part.layers == (layers or record.layers) and part.heads == (heads or record.heads)
    assert part.tokens == record.tokens and part.mask_name == record.mask_name
    for layer in part.layers:
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
    with pytest.raises(KeyError, match="layer 5, head 1"):
        with_vectors(record, [(5, 7), (2, 1)]).vectors.of(5, 1)


def test_the_vectors_of_a_head_are_its_own():
    vectors = with_vectors(record_of(np.full((2, 3, 4, 4), 0.25)), [(1, 2), (0, 0)]).vectors
    for place, (layer, head) in enumerate([(1, 2), (0, 0)]):
        query, key = vectors.of(layer, head)
        assert np.array_equal(query, vectors.query[place]) and np.array_equal(key, vectors.key[place])


@given(numbers=st.lists(st.integers(0, 30), unique=True))
def test_a_list_of_numbers_says_these_numbers(numbers):
    from attncli.record.selection import select

    if numbers:
        assert select(number_list(numbers), 31, "layer") == numbers
