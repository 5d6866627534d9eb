"""Words from pieces: which pieces, what the word reads like, and maps between words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, record_of

from attncli.analysis.words import byte_alphabet, decode_bytes, merge_words, word_groups, word_texts
from attncli.record import Vectors
from attncli.text import Tokens


def tokens(text, words, segments=None, special=None):
    count = len(text)
    special = [word is None for word in words] if special is None else special
    return Tokens(
        text=list(text),
        ids=list(range(count)),
        segments=list(segments or [0] * count),
        words=list(words),
        offsets=[(place, place + 1) for place in range(count)],
        special=special,
        padding=[token == "[PAD]" for token in text],
    )


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


def test_pieces_of_a_word_stand_together_and_special_tokens_alone():
    pair = tokens(
        ["[CLS]", "un", "##happy", "cat", "[SEP]", "un", "##done", "[SEP]", "[PAD]", "[PAD]"],
        [None, 0, 0, 1, None, 0, 0, None, None, None],
        [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
    )
    assert word_groups(pair) == [[0], [1, 2], [3], [4], [5, 6], [7], [8], [9]]


def test_words_of_two_texts_that_have_one_number_are_two_words():
    assert word_groups(tokens(["a", "b"], [0, 0], [0, 1])) == [[0], [1]]


@given(cut_records())
def test_every_token_is_in_one_word_and_in_order(record):
    groups = word_groups(record.tokens)
    assert [place for group in groups for place in group] == list(range(len(record.tokens)))


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


def test_the_byte_alphabet_is_that_of_the_tokenizers():
    from tokenizers import decoders, pre_tokenizers

    alphabet = byte_alphabet()
    assert set(alphabet) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(alphabet.values()) == list(range(256))
    for character in alphabet:
        if alphabet[character] < 128:
            assert decode_bytes(character) == decoders.ByteLevel().decode([character])


@given(st.text(min_size=1))
def test_text_through_bytes_and_back_is_the_same(text):
    letters = {byte: character for character, byte in byte_alphabet().items()}
    assert decode_bytes("".join(letters[byte] for byte in text.encode("utf-8"))) == text


def test_weights_to_pieces_add_up_and_weights_from_them_are_averaged():
    weights = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.4, 0.4, 0.2]]
    record = with_words(record_of(weights), [0, 1, 1])
    merged = merge_words(replace(record, tokens=tokens(["a", "b", "##c"], [0, 1, 1])))
    assert merged.tokens.text == ["a", "bc"]
    np.testing.assert_allclose(merged.weights[0, 0], [[0.5, 0.5], [0.25, 0.75]], atol=1e-6)


@given(cut_records())
def test_merged_maps_are_those_of_a_plain_loop(record):
    groups = word_groups(record.tokens)
    merged = merge_words(record)
    for layer in record.layers:
        for head in record.heads:
            one = record.map(layer, head)
            loop = [[np.mean([sum(one[i, j] for j in key) for i in query]) for key in groups] for query in groups]
            np.testing.assert_allclose(merged.map(layer, head), loop, atol=1e-6)


@given(cut_records())
def test_rows_still_sum_to_one(record):
    np.testing.assert_allclose(merge_words(record).weights.sum(axis=-1), 1, atol=1e-5)


@given(cut_records())
def test_merging_twice_changes_nothing_more(record):
    once = merge_words(record)
    twice = merge_words(once)
    assert [len(group) for group in word_groups(once.tokens)] == [1] * len(once.tokens)
    np.testing.assert_array_equal(once.weights, twice.weights)
    np.testing.assert_array_equal(once.mask, twice.mask)


@given(cut_records())
def test_a_word_may_attend_where_a_piece_of_it_may(record):
    causal = np.tril(np.ones_like(record.mask))
    groups = word_groups(record.tokens)
    merged = merge_words(replace(record, mask=causal))
    for query, rows in enumerate(groups):
        for key, columns in enumerate(groups):
            assert merged.mask[query, key] == causal[np.ix_(rows, columns)].any()


def test_a_word_stands_for_all_characters_of_its_pieces():
    merged = merge_words(record_of(np.eye(3)))
    record = replace(record_of(np.eye(3)), tokens=tokens(["a", "b", "##c"], [0, 1, 1]))
    assert merge_words(record).tokens.offsets == [(0, 1), (1, 3)]
    assert len(merged.tokens) == 3


def test_queries_and_keys_are_of_pieces_and_go():
    record = record_of(np.eye(3))
    one = np.zeros((1, 3, 8), dtype=np.float32)
    assert merge_words(replace(record, vectors=Vectors([(0, 0)], one, one))).vectors is None


def test_real_words_are_those_of_the_text(minilm):
    record = minilm.attend("The unhappiness of honeypots", layers=0, heads=2)
    assert "##" in "".join(record.tokens.text)
    merged = merge_words(record)
    assert merged.tokens.text == ["[CLS]", "the", "unhappiness", "of", "honeypots", "[SEP]"]
    text = "The unhappiness of honeypots"
    assert [text[a:b].lower() for a, b in merged.tokens.offsets[1:-1]] == merged.tokens.text[1:-1]


@given(cross_records())
def test_keys_of_another_text_become_words_of_their_own(record):
    cut = replace(
        record, key_tokens=replace(record.keys, words=[0] * len(record.keys), special=[False] * len(record.keys))
    )
    merged = merge_words(cut)
    assert merged.tokens.text == merge_words(record).tokens.text
    assert len(merged.keys) == 1
    np.testing.assert_allclose(merged.weights, 1, atol=1e-5)
