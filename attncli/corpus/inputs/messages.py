"""Where in a file of Arrow's format for processes (.arrow) its batches of rows are.

`datasets` writes a stream: a schema, then batches. The other format has the same between a mark and a footer, which a
stream has not: so both are read as streams, and what lies between the heads of messages is passed over.
Format: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import io
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

MARK = b"ARROW1\0\0"  # a file begins with it, and a stream does not
GOES_ON = 0xFFFFFFFF  # before the length of a message's head, since 2019
SCHEMA, DICTIONARY, ROWS = 1, 2, 3  # kinds of messages
LONGEST_HEAD = 2**26  # bytes


class Message(NamedTuple):
    """kind: SCHEMA, DICTIONARY or ROWS; [start, stop): its bytes in the file; rows: of ROWS how many there are."""

    kind: int
    start: int
    stop: int
    rows: int


def messages(file: BinaryIO) -> Iterator[Message]:
    """All messages of a file. Raises ValueError or EOFError for one that is garbled or cut short."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = len(MARK) if file.read(len(MARK)) == MARK else 0
    while start < size:
        file.seek(start)
        length = integer(file)
        if length == GOES_ON:
            length = integer(file)
        if length == 0:
            return
        head = file.read(length) if length <= LONGEST_HEAD else b""
        if len(head) < length:
            raise EOFError(f"it is cut short at byte {start:,}, or is not of Arrow's format")
        kind, rows, body = understood(head)
        stop = file.tell() + body
        if stop > size or body < 0:
            raise EOFError(f"it is cut short: a batch goes to byte {stop:,}, and there are {size:,}")
        yield Message(kind, start, stop, rows)
        start = stop


def integer(file: BinaryIO) -> int:
    content = file.read(4)
    if len(content) < 4:
        raise EOFError("it is cut short")
    return int.from_bytes(content, "little")


def understood(head: bytes) -> tuple[int, int, int]:
    """A message's kind, its rows, the bytes of its body: a flatbuffer, `Message` in Arrow's Message.fbs."""
    try:
        [root] = struct.unpack_from("<I", head)
        [kind] = struct.unpack_from("<B", head, field(head, root, 1))
        place = field(head, root, 2)
        [header] = struct.unpack_from("<I", head, place)
        body_at = field(head, root, 3, 0)
        body = struct.unpack_from("<q", head, body_at)[0] if body_at else 0
        rows_at = field(head, place + header, 0, 0) if kind == ROWS else 0
        rows = struct.unpack_from("<q", head, rows_at)[0] if rows_at else 0
    except struct.error as error:
        raise ValueError("a message in it is garbled") from error
    if rows < 0:
        raise ValueError("a message in it is garbled")
    return kind, rows, body


def field(head: bytes, table: int, number: int, missing: int | None = None) -> int:
    """Where a field of a flatbuffer's table is; `missing` where the table has none."""
    [back] = struct.unpack_from("<i", head, table)
    [length] = struct.unpack_from("<H", head, table - back)
    place = 4 + 2 * number
    [offset] = struct.unpack_from("<H", head, table - back + place) if place < length else [0]
    if offset:
        return table + offset
    if missing is None:
        raise ValueError("a message in it is garbled")
    return missing


class Spliced(io.RawIOBase):
    """Ranges of a file as if nothing lay between them."""

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
