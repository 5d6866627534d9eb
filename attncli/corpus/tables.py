"""Texts in tables: a column of a .parquet file, or of an .arrow file as `datasets` writes it. pyarrow reads them.

Only some rows of one column are in memory at a time.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import printable, quoted, shorten
from attncli.corpus.files import Input, Piece, is_parquet, open_input

if TYPE_CHECKING:
    import pyarrow

BATCH = 2**10  # rows that are in memory at a time
TOGETHER = 2**16  # rows up to which small batches of an .arrow file are put together
FOOTER = 2**16  # bytes per request to a store where only heads and footers are read
BUFFER = 2**20  # bytes of a column of .parquet that are read together


class Bad(NamedTuple):
    """A row that holds no text, and why."""

    why: str


def arrow() -> Any:
    """Return pyarrow. Raises RequestError if it is not installed."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise RequestError(f"reading .parquet and .arrow needs pyarrow: {install_hint('corpora')}") from error
    return pyarrow


def parts_of(table: Input) -> tuple[int, ...]:
    """Return the number of rows that are read together, for each part of a table.

    The parts are its row groups, or its batches, of which small ones are joined. Reads only the footer or the heads.
    Raises BadFile for a garbled table.
    """
    pyarrow = arrow()
    with open_input(table, FOOTER) as file:
        if is_parquet(table.name):
            about = pyarrow.parquet.read_metadata(file)
            return tuple(about.row_group(number).num_rows for number in range(about.num_row_groups))
        return tuple(_put_together(message.rows for message in messages(file) if message.kind == ROWS))


def _put_together(counts: Iterator[int]) -> Iterator[int]:
    so_far = 0
    for count in counts:
        if so_far and so_far + count > TOGETHER:
            yield so_far
            so_far = 0
        so_far += count
    if so_far:
        yield so_far


def rows(piece: Piece, field: str) -> Iterator[tuple[int, str | Bad]]:
    """Yield the texts of a piece of a table, with the numbers of their rows, from 0.

    Raises RequestError if the table has no such column, or if the column holds no texts; BadFile for a garbled table.
    """
    arrow()
    with open_input(piece.input) as file:
        at = piece.start
        for column in (_parquet_columns if is_parquet(piece.input.name) else _arrow_columns)(file, piece, field):
            for text in texts(column):
                if not piece.holds(at):
                    return
                yield at, text
                at += 1


def _parquet_columns(file: BinaryIO, piece: Piece, field: str) -> Iterator["pyarrow.Array"]:
    """Yield a column of .parquet from the first row of a piece on, some rows at a time."""
    pyarrow = arrow()
    table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER)
    _check_column(piece.input, table.schema_arrow, field)
    before = 0
    for number in range(table.metadata.num_row_groups):
        count = table.metadata.row_group(number).num_rows
        if before + count > piece.start and piece.holds(before):
            skipped = max(0, piece.start - before)
            for batch in table.iter_batches(BATCH, row_groups=[number], columns=[field], use_threads=False):
                yield batch.column(batch.schema.get_field_index(field)).slice(skipped)
                skipped = max(0, skipped - len(batch))
        before += count


def _arrow_columns(file: BinaryIO, piece: Piece, field: str) -> Iterator["pyarrow.Array"]:
    """Yield a column of .arrow from the first row of a piece on, some rows at a time."""
    pyarrow = arrow()
    ranges, before, first = [], 0, None
    for message in messages(file):
        if message.kind == ROWS and not piece.holds(before):
            break
        if message.kind != ROWS or before + message.rows > piece.start:
            ranges.append((message.start, message.stop))
            first = before if first is None and message.kind == ROWS else first
        before += message.rows
    stream = pyarrow.ipc.open_stream(pyarrow.PythonFile(_Spliced(file, ranges), mode="r"))
    place = _check_column(piece.input, stream.schema, field)
    skipped = piece.start - (first or 0)
    for batch in stream:
        yield batch.column(place).slice(skipped)
        skipped = max(0, skipped - len(batch))


def _check_column(table: Input, schema: "pyarrow.Schema", field: str) -> int:
    """Return the number of a column. Raises RequestError unless there is exactly one, and it holds texts."""
    kinds = arrow().types
    names = ", ".join(printable(name) for name in schema.names)
    found = [number for number, name in enumerate(schema.names) if name == field]
    if len(found) != 1:
        count = "no column" if not found else f"{len(found)} columns"
        raise RequestError(f"{table.display_name} has {count} {quoted(field)}: it has {shorten(names, 100)}")
    kind = schema.types[found[0]]
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    if not (kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_string_view(inner)):
        raise RequestError(
            f"{table.display_name}: its column {quoted(field)} is of {shorten(str(kind), 30)}, not of texts: it has "
            f"{shorten(names, 100)}"
        )
    return found[0]


def texts(column: "pyarrow.Array") -> list[str | Bad]:
    """Return the texts in a column. Raises ValueError for a garbled column."""
    pyarrow = arrow()
    if pyarrow.types.is_dictionary(column.type):
        words, places = _as_bytes(column.dictionary), column.indices
        places.validate(full=True)
        content = words.take(places)  # refuses places outside of the dictionary
    else:
        content = _as_bytes(column)
    return [_decoded(one) for one in content.to_pylist()]


def _as_bytes(column: "pyarrow.Array") -> "pyarrow.Array":
    """Return texts, perhaps not UTF-8, as bytes. Raises ValueError for offsets that lead out of the column."""
    pyarrow = arrow()
    kinds = {
        pyarrow.string(): pyarrow.binary(),
        pyarrow.large_string(): pyarrow.large_binary(),
        pyarrow.string_view(): pyarrow.binary_view(),
    }
    content = column.view(kinds[column.type])
    content.validate(full=True)
    return content


def _decoded(content: bytes | None) -> str | Bad:
    if content is None:
        return Bad("there is no text (null)")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        return Bad(f"not UTF-8 at byte {error.start}")


# --- the messages of an .arrow file ---------------------------------------------------------------------
#
# `datasets` writes a stream: a schema, then batches. Arrow's file format has the same messages between a mark and a
# footer. Both are read as streams, and only the heads of messages are read here.
# Format: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc

MARK = b"ARROW1\0\0"  # at the beginning of a file, not of a stream
CONTINUATION = 0xFFFFFFFF  # before the length of a message's head, since 2019
SCHEMA, DICTIONARY, ROWS = 1, 2, 3  # kinds of messages
LONGEST_HEAD = 2**26  # bytes


class Message(NamedTuple):
    """A message: its kind (SCHEMA, DICTIONARY or ROWS), its bytes [start, stop) in the file, and how many rows."""

    kind: int
    start: int
    stop: int
    rows: int


def messages(file: BinaryIO) -> Iterator[Message]:
    """Yield all messages of a file. Raises ValueError or EOFError for one that is garbled or cut short."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = len(MARK) if file.read(len(MARK)) == MARK else 0
    while start < size:
        file.seek(start)
        length = _integer(file)
        if length == CONTINUATION:
            length = _integer(file)
        if length == 0:
            return
        head = file.read(length) if length <= LONGEST_HEAD else b""
        if len(head) < length:
            raise EOFError(f"it is cut short at byte {start:,}, or is not of Arrow's format")
        kind, rows, body = _read_head(head)
        stop = file.tell() + body
        if stop > size or body < 0:
            raise EOFError(f"it is cut short: a batch goes to byte {stop:,}, and there are {size:,}")
        yield Message(kind, start, stop, rows)
        start = stop


def _integer(file: BinaryIO) -> int:
    content = file.read(4)
    if len(content) < 4:
        raise EOFError("it is cut short")
    return int.from_bytes(content, "little")


def _read_head(head: bytes) -> tuple[int, int, int]:
    """Return the kind, the rows and the body's size of a message: a flatbuffer, `Message` in Arrow's Message.fbs."""
    try:
        [root] = struct.unpack_from("<I", head)
        [kind] = struct.unpack_from("<B", head, _field(head, root, 1))
        place = _field(head, root, 2)
        [header] = struct.unpack_from("<I", head, place)
        body_at = _field(head, root, 3, 0)
        body = struct.unpack_from("<q", head, body_at)[0] if body_at else 0
        rows_at = _field(head, place + header, 0, 0) if kind == ROWS else 0
        rows = struct.unpack_from("<q", head, rows_at)[0] if rows_at else 0
    except struct.error as error:
        raise ValueError("a message in it is garbled") from error
    if rows < 0:
        raise ValueError("a message in it is garbled")
    return kind, rows, body


def _field(head: bytes, table: int, number: int, missing: int | None = None) -> int:
    """Return the place of a field in a flatbuffer's table; `missing` if the table has none."""
    [back] = struct.unpack_from("<i", head, table)
    [length] = struct.unpack_from("<H", head, table - back)
    place = 4 + 2 * number
    [offset] = struct.unpack_from("<H", head, table - back + place) if place < length else [0]
    if offset:
        return table + offset
    if missing is None:
        raise ValueError("a message in it is garbled")
    return missing


class _Spliced(io.RawIOBase):
    """Ranges of a file, read as if nothing lay between them."""

    def __init__(self, file: BinaryIO, ranges: Sequence[tuple[int, int]]) -> None:
        self.file, self.ranges = file, list(ranges)

    def readable(self) -> bool:
        return True

    def readinto(self, room) -> int:  # type: ignore[no-untyped-def]
        while self.ranges:
            start, stop = self.ranges[0]
            if start < stop:
                self.file.seek(start)
                content = self.file.read(min(len(room), stop - start))
                room[: len(content)] = content
                self.ranges[0] = start + len(content), stop
                return len(content)
            del self.ranges[0]
        return 0
