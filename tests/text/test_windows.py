"""Long texts become windows: every token counts once, and words stay whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import tokens_of

from attncli import RequestError, load_model
from attncli.text.tokenizer import Tokenizer, byte_tokenizer
from attncli.text.windows import TextWindow, windows


@pytest.fixture
def tokenizer():
    """A token a byte, and room for 12 of them."""
    return Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=400, pad_id=0)


@given(length=st.integers(1, 80), stride=st.none() | st.integers(1, 10))
def test_each_token_counts_in_one_window(length, stride):
    tokenizer = Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=400, pad_id=0)
    content = "".join(chr(ord("a") + place % 26) for place in range(length))
    cut = list(windows(7, content, tokenizer, stride))
    whole = tokenizer.backend.encode(content)
    counted = [
        (window.tokens.text[place], window.tokens.offsets[place]) for window in cut for place in range(*window.counted)
    ]
    assert counted == list(zip(whole.tokens, whole.offsets, strict=True))
    assert {window.text for window in cut} == {7}
    assert [window.of for window in cut] == [None] * (len(cut) - 1) + [len(cut)]
    assert sum(window.queries for window in cut) == len(whole)
    for window in cut:
        assert (window.tokens.text[0], window.tokens.text[-1]) == ("[CLS]", "[SEP]")
        assert len(window) == min(len(whole), 12)
        assert len(window.word) == len(window.place) == len(window.punctuation) == len(window)


def test_each_of_two_windows_counts_its_half_of_what_they_share(tokenizer):
    """They have bytes 0 to 9 and 4 to 13 between [CLS] and [SEP], and share 4 to 9: the later one counts 7 to 9."""
    first, second = windows(0, "abcdefghijklmn", tokenizer, 4)
    assert (first.counted, second.counted) == ((0, 8), (4, 12))


def test_a_word_that_a_window_cuts_is_the_same_as_where_it_is_whole(both):
    """Cut a word at the end of a window, and at its beginning."""
    tokenizer = both["vocab.txt"][0]
    narrow = Tokenizer(tokenizer.backend, 9, tokenizer.vocab_size, 0)
    first, *_ = windows(0, "unbelievable the cat sat unbelievable it", narrow)
    assert first.tokens.text[1:-1] == ["un", "##believ", "##able", "the", "cat", "sat", "un"]
    assert first.word.tolist() == [-1, 0, 0, 0, 1, 2, 3, 0, -1]
    for window in windows(0, "unbelievable " * 20, narrow, 1):
        assert set(window.word.tolist()) == {-1, 0}


@pytest.mark.parametrize("stride", [0, -1, 11])
def test_strides_that_leave_tokens_out_are_refused(tokenizer, stride):
    with pytest.raises(RequestError, match="1 to 10"):
        next(windows(0, "abc", tokenizer, stride))


def test_the_same_word_in_any_case_has_one_number_and_punctuation_and_special_tokens_have_none(minilm):
    [window] = windows(0, "Unbelievably, the cat saw THE unbelievably fat cat.", minilm.tokenizer)
    by_word: dict[int, set[int]] = {}
    for word, place in zip(window.word.tolist(), window.place.tolist(), strict=True):
        by_word.setdefault(word, set()).add(place)
    assert sorted(len(places) for word, places in by_word.items() if word >= 0) == [1, 1, 2, 2, 2]
    none = [token for token, word in zip(window.tokens.text, window.word, strict=True) if word < 0]
    assert none == ["[CLS]", ",", ".", "[SEP]"]
    marked = [token for token, mark in zip(window.tokens.text, window.punctuation, strict=True) if mark]
    assert marked == [",", "."]


def test_words_of_bytes_are_known_by_what_the_bytes_say(tiny):
    model = load_model(str(tiny("roberta")), device="cpu")
    [window] = windows(0, "É the é, 。 The", model.tokenizer)
    words = dict(zip(window.tokens.text, window.word.tolist(), strict=True))
    [first, *_, other] = [word for word in window.word.tolist() if word >= 0]
    assert first == 0 and other == 1  # "É" and "é" are one word, "the" and "The" another
    assert set(window.word.tolist()) == {-1, 0, 1}
    assert next(token for token, mark in zip(window.tokens.text, window.punctuation, strict=True) if mark) == ","
    assert window.punctuation.sum() >= 2 and words["<s>"] == -1


@pytest.mark.parametrize(
    ("counted", "in_words"), [((0, 6), (0, 3)), ((2, 6), (1, 3)), ((3, 6), (2, 3)), ((0, 4), (0, 2))]
)
def test_a_word_counts_where_its_first_piece_does(counted, in_words):
    nothing = np.zeros(6, dtype=int)
    one = TextWindow(0, 1, counted, tokens_of(6), nothing, np.repeat(np.arange(3), 2), nothing > 0).in_words
    assert (one.counted, one.queries, len(one)) == (in_words, in_words[1] - in_words[0], 3)
