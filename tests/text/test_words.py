"""Words put together from their pieces, and tokens of which no more is known than their names."""

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from records import tokens

from attncli import load_model
from attncli.text.tokens import UNKNOWN_ID, encoded, named_pieces, word_groups, word_texts
from attncli.text.windows import NO_WORD, word_places


def test_pieces_of_a_word_stand_together_and_special_tokens_alone():
    pair = tokens(
        ["[CLS]", "un", "##happy", "cat", "[SEP]", "un", "##done", "[SEP]", "[PAD]", "[PAD]"],
        [None, 0, 0, 1, None, 0, 0, None, None, None],
        [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
    )
    assert word_groups(pair) == [[0], [1, 2], [3], [4], [5, 6], [7], [8], [9]]


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        (["un", "##happi", "##ness"], "unhappiness"),
        (["##s"], "##s"),  # a text can begin so: nothing goes before it
        (["▁Straße"], "Straße"),
        (["▁un", "happy"], "unhappy"),
        (["▁"], " "),  # nothing but its space
        (["Ġthe"], "the"),
        (["ĠStra", "ÃŁe"], "Straße"),
        (["Ġä¸Ń"], "中"),
        (["Ġä¸", "Ń"], "中"),
        (["Ġä¸"], "<0xE4><0xB8>"),  # half of a character
        (["中"], "中"),
    ],
)
def test_a_word_reads_without_the_marks_of_the_vocabulary(pieces, word):
    assert word_texts(tokens(pieces, [0] * len(pieces)), [list(range(len(pieces)))]) == [word]


# --- the words of a text that a decoder goes on with ---------------------------------------------------


@pytest.fixture(scope="module")
def byte_level(tiny):
    """A decoder's tokenizer of bytes, which adds only a first token."""
    return load_model(str(tiny("llama")), "cpu").tokenizer


@pytest.fixture(scope="module")
def sentence_pieces(foreign):
    """A decoder's tokenizer with "▁", which marks words in its pieces alone."""
    return foreign("llama").tokenizer


@given(st.text("ab cat1.,'(é中🙂\n\t", min_size=1, max_size=30), st.text("ab cat1.,'(é中🙂\n\t", max_size=30))
@pytest.mark.parametrize("kind", ["byte_level", "sentence_pieces"])
def test_words_are_the_same_written_and_read(request, kind, begin, end):
    tokenizer = request.getfixturevalue(kind)
    assume(not begin.isspace())
    prompt, whole = tokenizer.encode(begin), tokenizer.encode(begin + end)
    assume(whole.ids[: len(prompt)] == prompt.ids and len(whole) < tokenizer.max_tokens)  # no half of a character
    extended = tokenizer.extend(prompt, whole.ids[len(prompt) :])
    assert word_groups(extended) == word_groups(whole)


@pytest.mark.parametrize("kind", ["byte_level", "sentence_pieces"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Paris.\n\nThe", ["Paris", ".", "The"]),
        ("a, b,  c", ["a", ",", "b", ",", "c"]),
        ("cat (cat", ["cat", "(", "cat"]),
        ("cat. \n", ["cat", "."]),
    ],
)
def test_punctuation_is_apart_and_white_space_is_no_word(request, kind, text, words):
    tokenizer = request.getfixturevalue(kind)
    tokens = tokenizer.encode(text)
    for one in (tokens, tokenizer.extend(tokens.take([0]), tokens.ids[1:])):
        found = [
            re.sub("<0x(..)>", lambda byte: chr(int(byte[1], 16)), word) for word in word_texts(one, word_groups(one))
        ]
        assert [word.strip() for word in found[1:]] == words
        counted = {one.shown[place] for place, number in enumerate(word_places(one)) if number != NO_WORD}
        assert not {",", ".", "(", "\n", " ", "<0x2C>", "<0x28>", "<0x0A>"} & {
            token.strip() or " " for token in counted
        }


# --- named pieces ----------------------------------------------------------------------------------------


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
