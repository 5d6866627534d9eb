"""Tokens of which no more is known than their names, beside what the tokenizer says of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.text.tokens import UNKNOWN_ID, encoded, named_pieces

TEXTS = st.text(st.sampled_from("abc xyz-.'unbelievable1中é"), min_size=1, max_size=40).filter(str.strip)


@given(text=TEXTS, pair=st.none() | TEXTS, more=st.integers(0, 3))
def test_names_say_what_the_tokenizer_says(minilm, text, pair, more):
    tokens = minilm.tokenizer.encode(text, pair)
    tokens = minilm.tokenizer.pad(tokens, len(tokens) + more)
    named = named_pieces(tokens.text, tokens.segments)
    for part in ("text", "segments", "words", "special", "padding"):
        assert getattr(named, part) == getattr(tokens, part), part
    assert set(named.ids) == {UNKNOWN_ID} and set(named.offsets) == {(0, 0)}


@pytest.mark.parametrize(
    ("text", "special", "words"),
    [
        (["<s>", "The", "Ġcat", "s", "</s>", "<pad>"], [1, 0, 0, 0, 1, 1], [None, 0, 1, 1, None, None]),
        (["▁the", "▁ca", "t", "</s>"], [0, 0, 0, 1], [0, 1, 1, None]),
        (["[CLS]", "[MASK]", "[UNK]", "##s", "[SEP]"], [1, 0, 0, 0, 1], [None, 0, 1, 1, None]),
        (["<|endoftext|>", "Hi"], [1, 0], [None, 0]),
    ],
)
def test_the_names_of_other_families(text, special, words):
    named = named_pieces(text)
    assert named.special == list(map(bool, special)) and named.words == words
    assert named.padding == [piece == "<pad>" for piece in text]


def test_what_an_encoding_does_not_attend_to_is_padding(minilm):
    backend = minilm.tokenizer.backend
    encoding = backend.encode("The cat sat.", "It is big.")
    encoding.pad(16)
    tokens = encoded(encoding)
    expected = minilm.tokenizer.encode("The cat sat.", "It is big.", 16)
    assert tokens == replace(expected, written=[""] * 16)  # an encoding does not have its text
