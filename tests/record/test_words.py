"""Maps between words, from maps between their pieces."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, layered_records, tokens

from attncli.record.grouping import merge_words
from attncli.text.tokens import word_groups


def with_words(record, words, segments=None):
    """The record, with its tokens cut into words in another way."""
    return replace(record, tokens=tokens(record.tokens.text, words, segments, special=record.tokens.special))


@st.composite
def cut_records(draw):
    """Records whose tokens are pieces of words of random lengths."""
    record = draw(attention_records())
    words, word = [], 0
    for special in record.tokens.special:
        word += draw(st.integers(0, 1))
        words.append(None if special else word)
    return with_words(record, words)


@given(cut_records())
def test_merged_maps_are_those_of_a_plain_loop(record):
    groups = word_groups(record.tokens)
    merged = merge_words(record)
    for layer in record.layers:
        for head in record.heads:
            one = record.map(layer, head)
            loop = [[np.mean([sum(one[i, j] for j in key) for i in query]) for key in groups] for query in groups]
            np.testing.assert_allclose(merged.map(layer, head), loop, atol=1e-6)


@given(layered_records(), st.integers(1, 3))
def test_each_layer_lets_a_word_attend_where_it_lets_a_piece(record, size):
    words = [None if special else place // size for place, special in enumerate(record.tokens.special)]
    cut = with_words(record, words)
    merged = merge_words(cut)
    assert merged.masks.shape == (len(record.layers), len(merged.tokens), len(merged.tokens))
    for layer in record.layers:
        np.testing.assert_array_equal(merged.mask_of(layer), merge_words(cut.select(layer)).mask)
        assert not merged.weights[merged.layers.index(layer)][:, ~merged.mask_of(layer)].any()


def test_real_words_are_those_of_the_text(minilm):
    record = minilm.attend("The unhappiness of honeypots", layers=0, heads=2)
    assert "##" in "".join(record.tokens.text)
    merged = merge_words(record)
    assert merged.tokens.text == ["[CLS]", "the", "unhappiness", "of", "honeypots", "[SEP]"]
    text = "The unhappiness of honeypots"
    assert [text[a:b].lower() for a, b in merged.tokens.offsets[1:-1]] == merged.tokens.text[1:-1]
