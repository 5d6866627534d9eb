"""A file of a corpus opened: of this machine, by address, or stdin; what is compressed is inflated as it is read."""

import gzip
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from attncli.base.addresses import filesystem, is_address
from attncli.base.errors import RequestError, install_hint
from attncli.base.untrusted import open_regular
from attncli.corpus.inputs.files import STDIN, BadFile, Input, reading_of
from attncli.corpus.inputs.kinds import compression

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from zstandard import ZstdDecompressionObj

REQUESTED = 2**22  # bytes that a store is asked for at once
SLICE = 2**11  # bytes of zstd that are inflated at once: to 64 MB at the most
WINDOW = 2**27  # bytes that zstd may look back, as much as its own program allows where it isn't told otherwise


@contextmanager
def opened(one: Input, requested: int = REQUESTED) -> Iterator[BinaryIO]:
    """What a file holds. One of bytes that are not compressed can be searched, unless it is a stream.

    Raises BadFile where it can't be read, or is not of the size that it had.
    """
    with reading_of(one.name):
        if one.at == STDIN:
            yield sys.stdin.buffer
            return
        with stored(one, requested) as file:
            yield inflated(one.name, file)


@contextmanager
def stored(one: Input, requested: int = REQUESTED) -> Iterator[BinaryIO]:
    """A file's own bytes. Raises OSError, and BadFile where it is not of the size that it had."""
    if is_address(one.at):
        raw = Ranges(*filesystem(one.at))
        check_size(one, raw.size)
        with io.BufferedReader(raw, requested) as file:
            yield file
    else:
        with Path(one.at).open("rb") if one.is_stream else open_regular(Path(one.at)) as file:
            check_size(one, regular_size(file))
            yield file
            check_size(one, regular_size(file))


def regular_size(file: BinaryIO) -> int | None:
    """None of a stream."""
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def check_size(one: Input, size: int | None) -> None:
    if size not in (None, one.size):
        raise BadFile(f"{one.shown} has changed: it had {one.size:,} bytes and has {size:,} now")


def inflated(name: str, file: BinaryIO) -> BinaryIO:
    """What a file holds, by what its name says of its compression."""
    match compression(name):
        case "gzip":
            return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
        case "zstd":
            return cast(BinaryIO, io.BufferedReader(Zstd(file), 2**17))
    return file


class Ranges(io.RawIOBase):
    """A file by address, of which ranges are asked for: several may read it, and none knows of the others.

    size: its bytes.
    """

    def __init__(self, files: "AbstractFileSystem", path: str) -> None:
        self.files, self.path = files, path
        self.size = int(files.info(path)["size"])
        self.place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.place = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence])
        return self.place

    def tell(self) -> int:
        return self.place

    def readinto(self, room) -> int:  # type: ignore[no-untyped-def]
        wanted = min(len(room), self.size - self.place)
        if wanted <= 0:
            return 0
        content = self.files.cat_file(self.path, start=self.place, end=self.place + wanted)
        if len(content) != wanted:
            raise OSError(f"{wanted:,} bytes were asked for, and {len(content):,} came")
        room[:wanted] = content
        self.place += wanted
        return wanted


class Zstd(io.RawIOBase):
    """What frames of zstd hold, one after the other.

    The decompressors of zstandard that are files take one that is cut short for one that ends there: this doesn't.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise RequestError(f"reading .zst needs zstandard: {install_hint('corpora')}") from error
        self.file = file
        self.zstd = zstandard.ZstdDecompressor(max_window_size=WINDOW)
        self.error = zstandard.ZstdError
        self.frame: ZstdDecompressionObj | None = None  # the one that is being read
        self.left = b""  # of the file, which was read and comes after a frame
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room) -> int:  # type: ignore[no-untyped-def]
        while not self.ready:
            piece = self.left or self.file.read(SLICE)
            if not piece:
                if self.frame is not None:
                    raise EOFError("it ends in the middle of a frame of zstd")
                return 0
            self.ready = memoryview(self.inflate(piece))
        wanted = min(len(room), len(self.ready))
        room[:wanted], self.ready = self.ready[:wanted], self.ready[wanted:]
        return wanted

    def inflate(self, piece: bytes) -> bytes:
        if self.frame is None:
            self.frame = self.zstd.decompressobj()
        try:
            content = self.frame.decompress(piece)
        except self.error as error:
            if "too much memory" in str(error):
                raise ValueError(
                    f"it is of zstd with a window of more than {WINDOW >> 20} MB: compress it again without --long"
                ) from error
            raise
        self.left = b""
        if self.frame.eof:
            self.left, self.frame = self.frame.unused_data, None
        return content
