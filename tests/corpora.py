"""Files of a corpus for tests: the same texts in every form that they are read from."""

import gzip
import io
import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from attncli.corpus.texts import TextFormat
from attncli.corpus.treebank import TreebankFormat


def texts(*names, **options):
    """The texts of a corpus."""
    return [line.text for line in TextFormat(**options).texts([str(name) for name in names])]


def sentences(path, **options):
    """The sentences of a treebank in CoNLL-U."""
    return list(TreebankFormat(**options).texts([str(path)]))


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def members(content: bytes, pack: Callable[[bytes], bytes], count: int = 3) -> bytes:
    """Packed in several parts, one after the other."""
    step = len(content) // count + 1
    return b"".join(pack(content[start : start + step]) for start in range(0, len(content), step))


def as_lines(texts: Sequence[str]) -> bytes:
    return "\n".join(texts).encode()


def as_json(texts: Sequence[str]) -> bytes:
    return "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()


def as_parquet(texts: Sequence[str | None], kind: pa.DataType | None = None, rows: int = 3) -> bytes:
    file = io.BytesIO()
    table = pa.table({"id": range(len(texts)), "text": pa.array(texts, kind or pa.string())})
    pa.parquet.write_table(table, file, row_group_size=rows)
    return file.getvalue()


def as_arrow(texts: Sequence[str | None], kind: pa.DataType | None = None, rows: int = 2, stream: bool = True) -> bytes:
    file = io.BytesIO()
    table = pa.table({"id": range(len(texts)), "text": pa.array(texts, kind or pa.string())})
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return file.getvalue()


# How texts without line ends in them are written, by the name of the file.
FORMS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "a.txt": as_lines,
    "a.jsonl": as_json,
    "a.txt.gz": lambda texts: members(as_lines(texts), gzip.compress),
    "a.txt.zst": lambda texts: members(as_lines(texts), zstd),
    "a.ndjson.zst": lambda texts: members(as_json(texts), zstd),
    "a.parquet": as_parquet,
    "large.parquet": lambda texts: as_parquet(texts, pa.large_string()),
    "words.parquet": lambda texts: as_parquet(texts, pa.dictionary(pa.int32(), pa.string())),
    "a.arrow": as_arrow,
    "view.arrow": lambda texts: as_arrow(texts, pa.string_view()),
    "words.arrow": lambda texts: as_arrow(texts, pa.dictionary(pa.int8(), pa.string())),
    "file.arrow": lambda texts: as_arrow(texts, pa.large_string(), stream=False),
}
