"""Damaged compressed files and tables are reported, however much was read; so are rows without a text."""

import gzip
import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from corpora import as_arrow, as_parquet, pieces

from attncli import Notice, RequestError
from attncli.corpus.files import BadFile, Input, Piece
from attncli.corpus.texts import TextFormat

LINES = b"".join(b"line %d of some text\n" % number for number in range(9000))


def read(path, **options):
    return [line.text for line in TextFormat(**options).texts(pieces(path))]


@pytest.mark.parametrize("name, pack", [("a.txt.gz", gzip.compress), ("a.txt.zst", zstandard.compress)])
@pytest.mark.parametrize(
    "damage", [lambda c: c[:-10], lambda c: c[: len(c) // 2], lambda c: c + b"more", lambda c: LINES]
)
def test_compressed_files_that_are_cut_short_or_no_such(tmp_path, name, pack, damage):
    path = tmp_path / name
    path.write_bytes(pack(LINES))
    assert len(read(path)) == 9000
    path.write_bytes(damage(pack(LINES)))
    with pytest.raises(BadFile, match=f"^can't read .*{name}: ") as refusal:
        read(path)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 300


def test_a_window_that_is_too_large_is_told(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1)
    (tmp_path / "a.txt.zst").write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(b""))
    packed = io.BytesIO()
    with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(packed, closefd=False) as writer:
        writer.write(LINES)
    (tmp_path / "b.txt.zst").write_bytes(packed.getvalue())
    with pytest.raises(BadFile, match="a window of more than 128 MB: compress it again without --long"):
        read(tmp_path / "b.txt.zst")


@pytest.mark.slow
@pytest.mark.parametrize("name, pack", [("a.txt.gz", gzip.compress), ("a.txt.zst", zstandard.compress)])
def test_a_bomb_is_never_there_as_a_whole(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(bytes(2**24)) * 20)  # 320 MB in one line
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="line 1: longer than 64 MB"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


# --- tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, write", [("a.parquet", as_parquet), ("a.arrow", as_arrow)])
def test_a_row_without_a_text_is_bad(tmp_path, name, write):
    path = tmp_path / name
    path.write_bytes(write(["one", None, "", "four"]))
    with pytest.raises(
        RequestError, match=f"{name}, row 2: there is no text \\(null\\): --skip-bad passes such rows over"
    ):
        read(path)
    with pytest.warns(Notice, match="row 2"):
        assert read(path, skip_bad=True) == ["one", "four"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_a_row_that_is_not_utf8_is_bad(tmp_path, kind):
    garbled = pa.array([b"one", b"a\xff", b"three"], pa.binary()).view(pa.string())
    column = garbled if kind == pa.string() else pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), garbled)
    path = tmp_path / "a.arrow"
    with pa.ipc.new_stream(str(path), pa.schema({"text": kind})) as writer:
        writer.write_batch(pa.record_batch({"text": column}))
    with pytest.warns(Notice, match="row 2: not UTF-8 at byte 1"):
        assert read(path, skip_bad=True) == ["one", "three"]


@pytest.mark.parametrize("garbled", ["offsets", "entries"])
def test_an_arrow_file_that_leads_elsewhere_in_memory_is_not_followed(tmp_path, garbled):
    places = pa.py_buffer(np.array([0, 2**30, 3], np.int32).tobytes())
    if garbled == "offsets":
        column = pa.Array.from_buffers(pa.string(), 2, [None, places, pa.py_buffer(b"one")])
    else:
        indices = pa.Array.from_buffers(pa.int32(), 2, [None, places])
        column = pa.DictionaryArray.from_arrays(indices, pa.array(["one"]), safe=False)
    path = tmp_path / "a.arrow"
    with pa.ipc.new_stream(str(path), pa.schema({"text": column.type})) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], ["text"]))
    with pytest.raises(BadFile, match=r"can't read .*a\.arrow"):
        read(path)


def test_columns_that_are_missing_or_hold_no_texts(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"body": ["x"], "text": [{"text": "x"}], "id": [1]})
    pa.parquet.write_table(table, path)
    assert read(path, field="body") == ["x"]
    with pytest.raises(RequestError, match=r"no column 'none': it has body, text, id$"):
        read(path, field="none")
    with pytest.raises(RequestError, match=r"column 'text' is of struct<text: string>, not of texts"):
        read(path)
    with pytest.raises(RequestError, match=r"no column 'text\.text'"):
        read(path, field="text.text")
    with pytest.raises(RequestError, match="has one text a row: leave out --paragraphs"):
        read(path, paragraphs=True)


@pytest.mark.parametrize("name, write", [("a.parquet", as_parquet), ("a.arrow", as_arrow)])
def test_whatever_byte_of_a_table_is_wrong_it_is_read_or_told_of(tmp_path, name, write):
    path, content = tmp_path / name, write(["one", "two", "three", None])
    for place in range(0, len(content), 17):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            read(path)
        except RequestError as error:
            assert "\n" not in str(error) and len(str(error)) <= 300
    assert place > 500


def test_a_table_of_several_batches_with_dictionaries_of_their_own(tmp_path):
    path = tmp_path / "a.arrow"
    kind = pa.dictionary(pa.int8(), pa.string())
    with pa.ipc.new_stream(str(path), pa.schema({"text": kind})) as writer:
        for words in (["a", "b"], ["c"], ["d", "a"]):
            writer.write_batch(pa.record_batch({"text": pa.array(words, kind)}))
    one = Input(str(path), str(path), path.stat().st_size)
    for start in range(5):
        assert [line.text for line in TextFormat().texts([Piece(one, start, 4)])] == list("abcd")[start:]
