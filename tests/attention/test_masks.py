"""Masks against the sentences that define them."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attncli.attention import (
    causal_mask,
    combine_masks,
    memory_mask,
    padding_mask,
    window_mask,
)

lengths = st.integers(0, 12)


@given(queries=lengths, keys=lengths)
def test_causal_hides_exactly_what_comes_after(queries, keys):
    mask = causal_mask(queries, keys)
    assert mask.shape == (queries, keys) and mask.dtype == torch.bool
    first = keys - queries  # the place of the first query in the sequence of keys
    for query, key in itertools.product(range(queries), range(keys)):
        assert mask[query, key] == (key <= first + query)


@given(
    attention_mask=arrays.arrays("int64", st.tuples(lengths, lengths), elements=st.integers(0, 1)),
    dtype=st.sampled_from([torch.int64, torch.bool, torch.float32]),
)
def test_padding_says_of_every_key_whether_it_is_real(attention_mask, dtype):
    given_mask = torch.from_numpy(attention_mask).to(dtype)
    mask = padding_mask(given_mask)
    batch, keys = given_mask.shape
    assert mask.dtype == torch.bool
    every = mask.expand(batch, 3, 2, keys)
    assert torch.equal(every, given_mask.bool()[:, None, None, :].expand(batch, 3, 2, keys))


@pytest.mark.parametrize("shape", [(3,), (2, 1, 3), (2, 1, 1, 3)])
def test_padding_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"\[batch, key\].*" + str(shape[0])):
        padding_mask(torch.ones(shape))


def test_memory():
    allowed = torch.tensor([[1, 0, 1], [0, 0, 1]])
    assert memory_mask(allowed).tolist() == [[[[True, False, True], [False, False, True]]]]
    batch = torch.stack([allowed, 1 - allowed])
    assert memory_mask(batch).shape == (2, 1, 2, 3)
    assert torch.equal(memory_mask(batch)[1, 0], ~memory_mask(batch)[0, 0])
    for shape in [(3,), (2, 4, 2, 3)]:
        with pytest.raises(ValueError, match="memory mask"):
            memory_mask(torch.ones(shape))


@given(st.data(), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_combining_is_and(data, batch, queries, keys):
    shapes = [(queries, keys), (batch, 1, 1, keys), (1, 1, queries, keys), (batch, 1, queries, keys)]
    one = st.sampled_from(shapes).flatmap(lambda shape: arrays.arrays("bool", shape)).map(torch.from_numpy)
    masks = data.draw(st.lists(st.none() | one, max_size=4))
    combined = combine_masks(*masks)
    there = [mask.expand(batch, 1, queries, keys) for mask in masks if mask is not None]
    if not there:
        assert combined is None
        return
    assert combined.dtype == torch.bool
    assert torch.equal(combined.expand(batch, 1, queries, keys), torch.stack(there).all(dim=0))


# --- windows --------------------------------------------------------------------------------------------

reaches = st.integers(0, 14)


@given(queries=lengths, keys=lengths, reach=reaches)
def test_a_window_hides_exactly_what_is_further_than_it_reaches(queries, keys, reach):
    mask = window_mask(reach, queries, keys)
    assert mask.shape == (queries, keys) and mask.dtype == torch.bool
    first = keys - queries
    for query, key in itertools.product(range(queries), range(keys)):
        assert mask[query, key] == (abs(first + query - key) <= reach)


def test_a_window_that_does_not_reach_its_own_token_is_refused():
    with pytest.raises(ValueError, match="at least 0 tokens to each side, not -1"):
        window_mask(-1, 3)
