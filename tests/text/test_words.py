"""Words put together from their pieces: which tokens are of one word, and how it reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import tokens

from attncli.text.words import decode_bytes, word_groups, word_texts

# The character that stands for each byte (Radford et al. 2019): itself where it can be printed, others from 256 on.
PRINTED = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
LETTERS = {byte: chr(byte) for byte in PRINTED} | {byte: chr(256 + place) for place, byte in enumerate(OTHERS)}


def test_pieces_of_a_word_stand_together_and_special_tokens_alone():
    pair = tokens(
        ["[CLS]", "un", "##happy", "cat", "[SEP]", "un", "##done", "[SEP]", "[PAD]", "[PAD]"],
        [None, 0, 0, 1, None, 0, 0, None, None, None],
        [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
    )
    assert word_groups(pair) == [[0], [1, 2], [3], [4], [5, 6], [7], [8], [9]]


def test_words_of_two_texts_that_have_one_number_are_two_words():
    assert word_groups(tokens(["a", "b"], [0, 0], [0, 1])) == [[0], [1]]


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        (["un", "##happi", "##ness"], "unhappiness"),
        (["##s"], "##s"),  # a text can begin so: nothing goes before it
        (["▁Straße"], "Straße"),
        (["▁un", "happy"], "unhappy"),
        (["▁"], "▁"),
        (["Ġthe"], "the"),
        (["ĠStra", "ÃŁe"], "Straße"),
        (["Ġä¸Ń"], "中"),
        (["Ġä¸"], "�"),
        (["中"], "中"),
    ],
)
def test_a_word_reads_without_the_marks_of_the_vocabulary(pieces, word):
    assert word_texts(tokens(pieces, [0] * len(pieces)), [list(range(len(pieces)))]) == [word]


def test_the_first_word_of_a_byte_level_text_is_decoded_too():
    text = tokens(["CafÃ©", "Ġnoir"], [0, 1])
    assert word_texts(text, [[0], [1]]) == ["Café", "noir"]


def test_special_tokens_read_as_they_are():
    assert word_texts(tokens(["[CLS]", "Ġa"], [None, 0]), [[0]]) == ["[CLS]"]


@given(st.binary())
def test_bytes_read_as_the_text_they_encode_and_others_as_no_character(data):
    """As Python decodes them, whatever they are."""
    assert decode_bytes("".join(LETTERS[byte] for byte in data)) == data.decode("utf-8", errors="replace")


@given(st.text(min_size=1))
def test_text_through_bytes_and_back_is_the_same(text):
    assert decode_bytes("".join(LETTERS[byte] for byte in text.encode("utf-8"))) == text


def test_a_character_that_stands_for_no_byte_stands_for_itself():
    assert decode_bytes("Ġ中Ã©") == " 中é"
