"""Texts in every form that they are read from; the choice among them; and what is no text."""

import gzip
import io
import os
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from corpora import FORMS, as_arrow, as_parquet, texts, zstd
from hypothesis import given
from hypothesis import strategies as st

from attncli import Notice, RequestError
from attncli.corpus import texts as corpus_texts
from attncli.corpus.files import BadFile
from attncli.corpus.shards import shards
from attncli.corpus.texts import TextFormat
from attncli.text import tokenizer

# Of few kinds, so that line ends, empty lines and marks meet often.
RAW = st.lists(st.sampled_from(["\n", "\n", "\r\n", " ", "\ufeff", "a", "é", "猫😀", "\u2028", "\xa0", "#", "b c"]))
TEXTS = st.lists(st.text(st.sampled_from("ab é猫😀\u2028"), max_size=9), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


def numbered(path, **options):
    """The texts of a file and the numbers of their lines."""
    return [(line.where.number, line.text) for line in TextFormat(**options).texts([str(path)])]


@pytest.mark.parametrize("paragraphs", [False, True])
@given(content=RAW)
def test_lines_and_paragraphs_are_those_that_python_finds(folder, paragraphs, content):
    (folder / "a.txt").write_bytes("".join(content).encode())
    expected = [""]
    for line in (one.strip() for one in "".join(content).removeprefix("\ufeff").split("\n")):
        if paragraphs and line:
            expected[-1] = f"{expected[-1]} {line}" if expected[-1] else line
        else:
            expected.append(line)
    assert texts(folder / "a.txt", paragraphs=paragraphs) == [text for text in expected if text]


@pytest.mark.parametrize("name", FORMS)
@given(found=TEXTS, limit=st.integers(1, 20), size=st.integers(1, 80))
def test_every_form_gives_the_same_texts(folder, name, found, limit, size):
    (folder / name).write_bytes(FORMS[name](found))
    expected = [(number, text.strip()) for number, text in enumerate(found, 1) if text.strip()]
    assert numbered(folder / name) == expected
    assert numbered(folder / name, limit=limit) == expected[:limit]
    cut = list(shards(TextFormat().texts([str(folder / name)] * 2), size))
    assert [one.text for shard in cut for one in shard.texts] == [text for _, text in expected] * 2
    assert [shard.number for shard in cut] == list(range(len(cut)))
    assert all(shard.size + len(shard.texts) >= size for shard in cut[:-1])
    assert all(sum(len(one.text) + 1 for one in shard.texts[:-1]) < size for shard in cut)


@pytest.mark.parametrize("share", [0.01, 0.3, 1])
def test_a_sample_has_about_that_share_and_depends_on_nothing_else(tmp_path, share):
    (tmp_path / "a.txt").write_text("\n".join(f"text {number}" for number in range(4000)))
    some = texts(tmp_path / "a.txt", sample=share)
    assert abs(len(some) - 4000 * share) <= 4 * (4000 * share * (1 - share)) ** 0.5
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes() + b"\nand more"))
    assert texts(tmp_path / "a.txt.gz", sample=share)[: len(some)] == some


@pytest.mark.parametrize("share", [0, 1.5, float("nan")])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(RequestError, match=rf"--sample must be above 0 and at most 1, not {share:g}"):
        TextFormat(sample=share)


@pytest.mark.parametrize(
    ("bad", "options", "says"),
    [
        (b"ab\xff", {}, "not UTF-8 at byte 2"),
        (b"ab\xff", {"paragraphs": True}, "not UTF-8 at byte 2"),
        (b"{", {"field": "text"}, "not JSON"),
        (b'"text"', {"field": "text"}, "not a JSON object"),
        (b'{"body": "x"}', {"field": "text"}, "with a text in 'text'"),
        (b'{"text": 3}', {"field": "text"}, "with a text in 'text'"),
        (b"[" * 100_000, {"field": "text"}, "not JSON"),
        (b'{"text": "x", "score": NaN}', {"field": "text"}, "NaN"),
    ],
)
def test_a_bad_line_stops_or_is_passed_over_and_is_named_either_way(tmp_path, bad, options, says):
    good = b'{"text": "good"}' if "field" in options else b"good"
    path = tmp_path / "corpus"
    path.write_bytes(good + b"\n\n" + bad + b"\n\n" + good + b"\n")
    with pytest.raises(RequestError, match=r"line 3.*--skip-bad") as refusal:
        texts(path, **options)
    assert says in str(refusal.value)
    with pytest.warns(Notice, match="skipped .*line 3") as noticed:
        assert texts(path, skip_bad=True, **options) == ["good", "good"]
    assert len(noticed) == 1 and says in str(noticed[0].message)


@pytest.mark.parametrize("options", [{}, {"paragraphs": True}, {"field": "text"}])
def test_a_line_that_is_too_long_is_never_held(options):
    """/dev/zero has one line, which does not end."""
    with pytest.raises(BadFile, match=r"line 1: longer than 64 MB"):
        texts("/dev/zero", **options)


def test_a_paragraph_that_is_too_long_is_never_held(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_texts, "LONGEST", 100)
    (tmp_path / "a.txt").write_text("one\n\n" + "too long\n" * 20)
    with pytest.warns(Notice, match="skipped the rest: .*line 3: longer than"):
        assert texts(tmp_path / "a.txt", paragraphs=True, skip_bad=True) == ["one"]


def test_nothing_is_read_after_the_last_text_asked_for(monkeypatch):
    reader, writer = os.pipe()  # reading on would wait for ever
    os.write(writer, b"one\ntwo\n")
    monkeypatch.setattr(sys, "stdin", os.fdopen(reader))
    assert texts("-", limit=2) == ["one", "two"]
    os.close(writer)


def test_stdin_is_a_file_like_others(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n")))
    with pytest.raises(RequestError, match="stdin, line 2"):
        texts("-")


def test_a_suffix_or_a_field_says_that_lines_are_json(tmp_path):
    lines, plain = tmp_path / "a.jsonl", tmp_path / "a.txt"
    for path in (lines, plain):
        path.write_text('{"text": "one", "body": "two"}\n')
    assert texts(lines) == texts(plain, field="text") == ["one"]
    assert texts(lines, field="body") == ["two"]
    with pytest.raises(RequestError, match="omit one of them"):
        texts(lines, paragraphs=True, field="text")
    with pytest.raises(RequestError, match="has one text per line: omit --paragraphs"):
        texts(lines, paragraphs=True)


# --- windows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "says"), [("\x00\x01", "has no characters"), ("the cat sat " * 100, "1,199 characters")]
)
def test_a_text_that_can_not_be_read_is_a_bad_line(minilm, tmp_path, monkeypatch, bad, says):
    monkeypatch.setattr(tokenizer, "LONGEST", 1000)
    path = tmp_path / "corpus.txt"
    path.write_text(f"good\n{bad}\ngood\n")

    def windows(**options):
        reading = TextFormat(**options)
        return list(reading.windows(reading.texts([str(path)]), minilm.tokenizer))

    with pytest.raises(RequestError, match=rf"line 2: .*{says}.*--skip-bad"):
        windows()
    with pytest.warns(Notice, match="line 2"):
        assert {window.of for window in windows(skip_bad=True)} == {1}


# --- damaged files ---------------------------------------------------------------------------------------

LINES = b"".join(b"line %d of some text\n" % number for number in range(9000))


@pytest.mark.parametrize("name, pack", [("a.txt.gz", gzip.compress), ("a.txt.zst", zstd)])
@pytest.mark.parametrize(
    "damage", [lambda c: c[:-10], lambda c: c[: len(c) // 2], lambda c: c + b"more", lambda c: LINES]
)
def test_compressed_files_that_are_cut_short_or_no_such(tmp_path, name, pack, damage):
    path = tmp_path / name
    path.write_bytes(pack(LINES))
    assert len(texts(path)) == 9000
    path.write_bytes(damage(pack(LINES)))
    with pytest.raises(BadFile, match=f"^can't read .*{name}: ") as refusal:
        texts(path)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 300
    (tmp_path / "b.txt").write_text("good")
    with pytest.warns(Notice, match="skipped the rest: can't read"):
        assert texts(path, tmp_path / "b.txt", skip_bad=True)[-1] == "good"


@pytest.mark.slow
@pytest.mark.parametrize("name, pack", [("a.txt.gz", gzip.compress), ("a.txt.zst", zstd)])
def test_a_bomb_is_never_there_as_a_whole(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(bytes(2**24)) * 20)  # 320 MB in one line
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="line 1: longer than 64 MB"):
            texts(path)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


TABLES = [("a.parquet", as_parquet), ("a.arrow", as_arrow)]


@pytest.mark.parametrize("name, write", TABLES)
def test_a_row_without_a_text_is_as_an_empty_one(tmp_path, name, write):
    (tmp_path / name).write_bytes(write(["one", None, "", "four"]))
    assert numbered(tmp_path / name) == [(1, "one"), (4, "four")]


@pytest.mark.parametrize("garbled", ["offsets", "entries", "UTF-8"])
def test_an_arrow_file_that_leads_elsewhere_in_memory_is_not_followed(tmp_path, garbled):
    places = pa.py_buffer(np.array([0, 2**30, 3], np.int32).tobytes())
    if garbled == "offsets":
        column = pa.Array.from_buffers(pa.string(), 2, [None, places, pa.py_buffer(b"one")])
    elif garbled == "entries":
        indices = pa.Array.from_buffers(pa.int32(), 2, [None, places])
        column = pa.DictionaryArray.from_arrays(indices, pa.array(["one"]), safe=False)
    else:
        column = pa.array([b"one", b"a\xff"], pa.binary()).view(pa.string())
    path = tmp_path / "a.arrow"
    with pa.ipc.new_stream(str(path), pa.schema({"text": column.type})) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], ["text"]))
    with pytest.raises(BadFile, match=r"can't read .*a\.arrow"):
        texts(path)


def test_columns_that_are_missing_or_hold_no_texts(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"body": ["x"], "text": [{"text": "x"}], "id": [1]}), path)
    assert texts(path, field="body") == ["x"]
    for options, says in [
        (
            {"field": "none"},
            r"no column 'none' of texts \(string\): it has body \(string\), text \(.*\), id \(int64\)$",
        ),
        ({}, "no column 'text' of texts"),
        ({"field": "text.text"}, r"no column 'text\.text'"),
        ({"paragraphs": True}, "has one text per line: omit --paragraphs"),
    ]:
        with pytest.raises(RequestError, match=says):
            texts(path, **options)


@pytest.mark.parametrize("name, write", TABLES)
def test_whatever_byte_of_a_table_is_wrong_it_is_read_or_told_of(tmp_path, name, write):
    path, content = tmp_path / name, write(["one", "two", "three", None])
    for place in range(0, len(content), 17):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            texts(path)
        except RequestError as error:
            assert "\n" not in str(error) and len(str(error)) <= 300
    assert place > 500


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for name in ("a.parquet", "a.txt.zst"):
        (tmp_path / name).write_bytes(FORMS[name](["one"]))
        with pytest.raises(RequestError, match=r'needs pyarrow: pip install "\.\[corpora\]" in '):
            texts(tmp_path / name)
