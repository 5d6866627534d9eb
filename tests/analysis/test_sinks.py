"""Which keys are sinks: told by masks alone, and held against networks whose kind is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of, tokens

from attncli.analysis.edges import first_is_sink, sinks
from attncli.record.grouping import grouped, merge_words
from attncli.record.selection import Grouping

TEXT = "the cat sat on the mat"
BACK_ONLY = ["gpt2", "llama-no-bos", "gpt_neo"]  # without a special first token; the last has windows
BOTH_WAYS = ["t5", "marian"]  # encoders that begin with the text itself


def plain(mask, padding: int = 0):
    """A record of a text without special tokens at its ends, of uniform weights under a mask."""
    mask = np.array(mask, dtype=bool)
    length = mask.shape[-1]
    weights = mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1)
    text = [*"abcdefghijkl"[: length - padding], *["[PAD]"] * padding]
    made = tokens(text, [*range(length - padding), *[None] * padding])
    return replace(record_of(weights[None] if mask.ndim == 2 else weights[:, None], mask), tokens=made)


@pytest.mark.parametrize("family", BACK_ONLY)
def test_the_first_token_of_a_network_that_looks_back_only_is_one(foreign, family):
    record = foreign(family).attend(TEXT)
    assert not record.tokens.special[0]
    assert sinks(record).tolist() == [True, *record.tokens.special[1:]]


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_a_first_token_that_is_special_is_one_for_that(foreign, family):
    record = foreign(family).attend(TEXT)
    assert record.tokens.special[0] and not first_is_sink(record)
    assert sinks(record).tolist() == record.tokens.special


@pytest.mark.parametrize("family", BOTH_WAYS)
def test_that_of_a_network_that_looks_both_ways_is_none(foreign, family):
    record = foreign(family).attend(TEXT, which="encoder")
    assert not record.tokens.special[0] and not first_is_sink(record)
    assert sinks(record).tolist() == record.tokens.special


@given(st.integers(1, 4), st.integers(1, 8), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_it_is_one_where_no_token_sees_a_later_one(layers, length, padding, seed):
    numbers = np.random.default_rng(seed)
    masks = np.tril(numbers.random((layers, length + padding, length + padding)) < 0.7)
    masks[:, :, length:] = False
    looks_back = any(masks[layer, q, k] for layer in range(layers) for q in range(length) for k in range(q))
    assert first_is_sink(plain(masks, padding)) is looks_back
    if length > 1:
        masks[numbers.integers(layers), 0, numbers.integers(1, length)] = True
        assert not first_is_sink(plain(masks, padding))


def test_words_stretches_and_some_tokens_have_that_of_their_text():
    record = plain(np.tri(9))
    assert first_is_sink(merge_words(record))
    assert first_is_sink(grouped(record, Grouping(tokens="0,4-8")))
    assert not first_is_sink(grouped(record, Grouping(tokens="3-8")))
