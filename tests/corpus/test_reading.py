"""Reading a corpus: what is a text, what is a bad line, and which texts are cut into windows."""

import io
import os
import sys

import pytest
from corpora import pieces

from attncli import Notice, RequestError
from attncli.corpus import texts as corpus_texts
from attncli.corpus.texts import TextFormat
from attncli.text import tokenizer as stretches


def texts(path, **options):
    return [(line.where.number, line.text) for line in TextFormat(**options).texts(pieces(path))]


@pytest.fixture
def short(monkeypatch):
    """`short()`: no line is read that has more than 100 bytes."""

    def make():
        monkeypatch.setattr(corpus_texts, "LONGEST", 100)

    return make


def test_a_text_a_line_with_its_number_and_empty_lines_are_none(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes("\ufeffone\r\n\n  two words \nthree".encode())
    assert texts(path) == [(1, "one"), (3, "two words"), (4, "three")]


def test_paragraphs_go_on_to_an_empty_line_and_never_into_the_next_file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("one\ntwo\n\n \nthree\n")
    found = [(line.where.number, line.text) for line in TextFormat(paragraphs=True).texts(pieces(path, path))]
    assert found == [(1, "one two"), (5, "three")] * 2


@pytest.mark.parametrize(
    "bad, options, says",
    [
        (b"\xff\xfe", {}, "not UTF-8 at byte 0"),
        (b"a \xff", {"paragraphs": True}, "not UTF-8 at byte 2"),
        (b"{", {"json": True}, "not JSON"),
        (b'"text"', {"json": True}, "no JSON object"),
        (b'{"body": "x"}', {"json": True}, "field 'text'"),
        (b'{"text": 3}', {"json": True}, "is no text"),
        (b"[" * 100_000, {"json": True}, "not JSON"),
        (b'{"text": "x", "score": NaN}', {"json": True}, "NaN"),
        (b"too long " * 20, {}, "longer than"),
        (b"too long " * 20, {"paragraphs": True}, "longer than"),
    ],
)
def test_a_bad_line_stops_or_is_passed_over_and_is_named_either_way(tmp_path, bad, options, says, short):
    if says == "longer than":
        short()
    good = b'{"text": "good"}' if "json" in options else b"good"
    path = tmp_path / "corpus"
    path.write_bytes(good + b"\n" + bad + b"\n\n" + good + b"\n")
    with pytest.raises(RequestError, match=r"line 2.*--skip-bad") as refusal:
        texts(path, **options)
    assert says in str(refusal.value)
    with pytest.warns(Notice, match="skipped .*line 2") as noticed:
        assert texts(path, skip_bad=True, **options) == [(1, "good"), (4, "good")]
    assert len(noticed) == 1 and says in str(noticed[0].message)


def test_a_paragraph_that_is_too_long_is_refused_at_its_first_line_and_those_after_it_are_read(tmp_path, short):
    short()
    path = tmp_path / "corpus"
    path.write_bytes(b"good\n\n" + b"too long\n" * 20 + b"\ngood\nmore\n")
    with pytest.raises(RequestError, match=r"line 3: longer than"):
        texts(path, paragraphs=True)
    with pytest.warns(Notice, match=r"skipped .*line 3: longer") as noticed:
        assert texts(path, paragraphs=True, skip_bad=True) == [(1, "good"), (24, "good more")]
    assert len(noticed) == 1


@pytest.mark.parametrize("options", [{}, {"paragraphs": True}, {"json": True}])
def test_a_line_that_is_too_long_is_never_held(options):
    """/dev/zero has one line, which does not end."""
    with pytest.raises(RequestError, match=r"line 1: longer than 64 MB"):
        texts("/dev/zero", **options)


def test_nothing_is_read_after_the_last_text_asked_for(tmp_path, monkeypatch):
    reader, writer = os.pipe()  # whoever reads on waits for ever
    os.write(writer, b"one\ntwo\n")
    monkeypatch.setattr(sys, "stdin", os.fdopen(reader))
    assert texts("-", limit=2) == [(1, "one"), (2, "two")]
    os.close(writer)


def test_stdin_is_a_file_like_others(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n")))
    with pytest.raises(RequestError, match="stdin, line 2"):
        list(TextFormat().texts(pieces("-")))


def test_a_text_without_tokens_is_a_bad_line(minilm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"good\n\x00\x01\ngood\n")
    with pytest.raises(RequestError, match=r"line 2.*has no characters"):
        list(map(list, TextFormat().windows(pieces(path), minilm.tokenizer)))
    with pytest.warns(Notice, match="line 2"):
        found = list(map(list, TextFormat(skip_bad=True).windows(pieces(path), minilm.tokenizer)))
    assert [[window.text for window in text] for text in found] == [[0], [], [2]]


def test_a_text_that_can_not_be_cut_is_a_bad_line(minilm, tmp_path, monkeypatch):
    for name, value in {"PIECE": 1000, "OVERLAP": 500, "LONGEST": 1000}.items():
        monkeypatch.setattr(stretches, name, value)
    path = tmp_path / "corpus.txt"
    path.write_text("good\n" + "the cat sat " * 900 + "x" * 3000 + "\ngood\n")
    with pytest.raises(RequestError, match=r"line 2: from character \d+,\d\d\d on .*--skip-bad"):
        list(map(list, TextFormat().windows(pieces(path), minilm.tokenizer)))
    with pytest.warns(Notice, match="line 2"):
        found = list(map(list, TextFormat(skip_bad=True).windows(pieces(path), minilm.tokenizer)))
    assert [{window.of for window in text} for text in found] == [{1}, {None}, {1}]


def test_a_suffix_says_that_lines_are_json_and_its_field_is_text(tmp_path):
    lines, plain = tmp_path / "a.jsonl", tmp_path / "a.txt"
    for path in (lines, plain):
        path.write_text('{"text": "one", "body": "two"}\n')
    assert texts(lines) == texts(plain, json=True) == [(1, "one")]
    assert texts(lines, field="body") == [(1, "two")]
    assert texts(plain) == texts(plain, field="body") == [(1, '{"text": "one", "body": "two"}')]
    with pytest.raises(RequestError, match="has one text a line: leave out --paragraphs"):
        texts(lines, paragraphs=True)
