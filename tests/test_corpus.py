"""Reading a corpus: what is a text, what is a bad line, and how long texts become windows."""

import io
import json
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import Notice, RequestError
from attncli.corpus import Reading, is_punctuation, windows
from attncli.text import Tokenizer, byte_tokenizer


def texts(path, **options):
    return [(line.number, line.text) for line in Reading(**options).texts([str(path)])]


@pytest.fixture
def tokenizer():
    """A token a byte, and room for 12 of them."""
    return Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=400, pad_id=0)


def test_a_text_a_line_with_its_number_and_empty_lines_are_none(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes("\ufeffone\r\n\n  two words \nthree".encode())
    assert texts(path) == [(1, "one"), (3, "two words"), (4, "three")]


def test_paragraphs_go_on_to_an_empty_line_and_never_into_the_next_file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("one\ntwo\n\n \nthree\n")
    found = [(line.number, line.text) for line in Reading(paragraphs=True).texts([str(path), str(path)])]
    assert found == [(1, "one two"), (5, "three")] * 2


def test_a_field_of_json_lines(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps({"id": 1, "text": text}) for text in ("é one", "", "two")))
    assert texts(path, field="text") == [(1, "é one"), (3, "two")]


@pytest.mark.parametrize(
    "bad, options, says",
    [
        (b"\xff\xfe", {}, "not UTF-8 at byte 0"),
        (b"a \xff", {"paragraphs": True}, "not UTF-8 at byte 2"),
        (b"{", {"field": "text"}, "not JSON"),
        (b'"text"', {"field": "text"}, "no JSON object"),
        (b'{"body": "x"}', {"field": "text"}, "field 'text'"),
        (b'{"text": 3}', {"field": "text"}, "is no text"),
    ],
)
def test_a_bad_line_stops_or_is_passed_over_and_is_named_either_way(tmp_path, bad, options, says):
    good = b'{"text": "good"}' if "field" in options else b"good"
    path = tmp_path / "corpus"
    path.write_bytes(good + b"\n" + bad + b"\n\n" + good + b"\n")
    with pytest.raises(RequestError, match=r"line 2.*--skip-bad") as refusal:
        texts(path, **options)
    assert says in str(refusal.value)
    with pytest.warns(Notice, match="skipped .*line 2") as noticed:
        assert texts(path, skip_bad=True, **options) == [(1, "good"), (4, "good")]
    assert len(noticed) == 1 and says in str(noticed[0].message)


def test_only_as_many_texts_as_asked_for_are_read(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"one\ntwo\n\xff\n")
    assert texts(path, limit=2) == [(1, "one"), (2, "two")]


def test_stdin_is_a_file_like_others(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n")))
    with pytest.raises(RequestError, match="stdin, line 2"):
        list(Reading().texts(["-"]))


def test_files_that_cannot_be_read_and_readings_that_exclude_each_other(tmp_path):
    with pytest.raises(RequestError, match="No such file"):
        texts(tmp_path / "missing")
    with pytest.raises(RequestError, match="directory"):
        texts(tmp_path)
    with pytest.raises(RequestError, match="--paragraphs"):
        Reading(paragraphs=True, field="text")


@given(length=st.integers(1, 80), stride=st.none() | st.integers(1, 10))
def test_each_token_counts_in_one_window(length, stride):
    tokenizer = Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=400, pad_id=0)
    content = "".join(chr(ord("a") + place % 26) for place in range(length))
    cut = windows(7, content, tokenizer, stride)
    whole = tokenizer.backend.encode(content)
    counted = [
        (window.tokens.text[place], window.tokens.offsets[place]) for window in cut for place in range(*window.counted)
    ]
    assert counted == list(zip(whole.tokens, whole.offsets, strict=True))
    assert {(window.text, window.of) for window in cut} == {(7, len(cut))}
    assert sum(window.queries for window in cut) == len(whole)
    for window in cut:
        assert (window.tokens.text[0], window.tokens.text[-1]) == ("[CLS]", "[SEP]")
        assert len(window) == min(len(whole), 12)
        assert len(window.word) == len(window.place) == len(window.punctuation) == len(window)


@given(length=st.integers(13, 80), stride=st.integers(1, 10))
def test_a_token_counts_where_it_has_most_of_the_text_around_it(length, stride):
    tokenizer = Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=400, pad_id=0)
    cut = windows(0, "a" * length, tokenizer, stride)
    around: dict[int, int] = {}  # token -> the most that it has on its shorter side, in any window
    chosen: dict[int, int] = {}
    for window in cut:
        for place in range(1, len(window) - 1):
            token = window.tokens.offsets[place][0]
            shorter = min(place - 1, len(window) - 2 - place)
            around[token] = max(around.get(token, 0), shorter)
            if window.counted[0] <= place < window.counted[1]:
                chosen[token] = shorter
    inner = {token for token in around if 10 <= token < length - 10}  # at the ends of the text a side is always short
    assert all(chosen[token] >= around[token] for token in inner)


@pytest.mark.parametrize("stride", [0, -1, 11])
def test_strides_that_leave_tokens_out_are_refused(tokenizer, stride):
    with pytest.raises(RequestError, match="1 to 10"):
        windows(0, "abc", tokenizer, stride)


def test_a_text_without_tokens_is_a_bad_line(minilm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"good\n\x00\x01\ngood\n")
    with pytest.raises(RequestError, match=r"line 2.*nothing in it"):
        list(Reading().windows([str(path)], minilm.tokenizer, None, lambda _: True))
    with pytest.warns(Notice, match="line 2"):
        found = list(Reading(skip_bad=True).windows([str(path)], minilm.tokenizer, None, lambda _: True))
    assert [window.text for [window] in found] == [0, 2]


def test_unwanted_texts_are_passed_over(minilm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("one\ntwo\nthree\n")
    found = Reading().windows([str(path)], minilm.tokenizer, None, lambda number: number != 1)
    assert [window.tokens.text[1] for [window] in found] == ["one", "three"]


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


def test_punctuation_is_what_berts_tokenizer_takes_for_it():
    assert all(map(is_punctuation, ".,;:!?$+~“”。、…—"))
    assert not any(map(is_punctuation, "aé中9 \t€°"))


def test_a_tokenizer_of_another_model_is_refused():
    with warnings.catch_warnings(), pytest.raises(RequestError, match="another model"):
        windows(0, "abc", Tokenizer(byte_tokenizer(0), max_tokens=12, vocab_size=5, pad_id=0))


def test_words_of_bytes_are_known_by_what_the_bytes_say(tiny):
    from attncli import load_model

    model = load_model(str(tiny("roberta")), device="cpu")
    [window] = windows(0, "É the é, 。 The", model.tokenizer)
    words = dict(zip(window.tokens.text, window.word.tolist(), strict=True))
    [first, *_, other] = [word for word in window.word.tolist() if word >= 0]
    assert first == 0 and other == 1  # "É" and "é" are one word, "the" and "The" another
    assert set(window.word.tolist()) == {-1, 0, 1}
    assert next(token for token, mark in zip(window.tokens.text, window.punctuation, strict=True) if mark) == ","
    assert window.punctuation.sum() >= 2 and words["<s>"] == -1
