"""Messages through a pipe: how long it is, then its bytes."""

import struct
from typing import Protocol

LENGTH = struct.Struct("<Q")
LONGEST = 1 << 30  # bytes of a message


class Stream(Protocol):
    """A pipe's end, without a buffer of its own."""

    def read(self, size: int, /) -> bytes | None: ...

    def write(self, data: bytes | memoryview, /) -> int | None: ...


def send(stream: Stream, message: bytes) -> None:
    """Raises OSError where nobody reads."""
    left = memoryview(LENGTH.pack(len(message)) + message)
    while left:
        left = left[stream.write(left) or 0 :]


def receive(stream: Stream) -> bytes:
    """One message. Raises EOFError where the pipe has ended, ValueError for one that says it is longer than any is."""
    (size,) = LENGTH.unpack(exactly(stream, LENGTH.size))
    if size > LONGEST:
        raise ValueError(f"a message of {size} bytes")
    return exactly(stream, size)


def exactly(stream: Stream, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
