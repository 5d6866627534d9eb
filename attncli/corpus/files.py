"""The files of a corpus: what each is by its name, the pieces that it is read in, its bytes, its digest.

A file is on this machine, at an address, or stdin. Compressed files are decompressed as they are read.
"""

import gzip
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from attncli.base.addresses import describe_file_error, filesystem, is_address
from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import printable, shorten
from attncli.base.untrusted import open_regular
from attncli.text.samples import where_to_find

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from zstandard import ZstdDecompressionObj

STDIN = "-"

# --- kinds of files, by their names ---------------------------------------------------------------------

GZIP, ZSTD = (".gz",), (".zst", ".zstd")
TEXT, JSON, PARQUET, ARROW, TREEBANK = (".txt",), (".jsonl", ".ndjson"), (".parquet",), (".arrow",), (".conllu",)
CACHE = "cache-*.arrow"  # the copy of a dataset that `datasets` keeps beside it


class Kinds(NamedTuple):
    """The kinds of files that a command reads from a folder.

    what: their content, in words. lines: suffixes of files of lines, which may be compressed. tables: suffixes of
    files of rows.
    """

    what: str
    lines: tuple[str, ...]
    tables: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a file of that name is one of them."""
        return suffix(name) in self.lines or (self.is_table(name) and not fnmatch(name, CACHE))

    def is_table(self, name: str) -> bool:
        """Return whether a file of that name is read as rows."""
        return is_table(name) and suffix(name) in self.tables

    @property
    def suffixes(self) -> str:
        return " ".join(self.lines + self.tables)


TEXTS = Kinds("texts", TEXT + JSON, PARQUET + ARROW)
TREEBANKS = Kinds("treebanks", TREEBANK)


def compression(name: str) -> str | None:
    """Return the compression of a file: "gzip", "zstd", or None."""
    suffix = PurePosixPath(name).suffix.lower()
    return "gzip" if suffix in GZIP else "zstd" if suffix in ZSTD else None


def is_compressed(name: str) -> bool:
    return compression(name) is not None


def suffix(name: str) -> str:
    """Return the suffix of the decompressed file, in lower case: ".jsonl" for "a.JSONL.gz"."""
    path = PurePosixPath(name)
    return (PurePosixPath(path.stem) if is_compressed(name) else path).suffix.lower()


def is_json(name: str) -> bool:
    return suffix(name) in JSON


def is_table(name: str) -> bool:
    """Return whether a file is a table. Tables are compressed inside: "a.parquet.gz" is none."""
    return PurePosixPath(name).suffix.lower() in PARQUET + ARROW


def is_parquet(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in PARQUET


# --- files and pieces of them ---------------------------------------------------------------------------


class BadFile(RequestError):  # noqa: N818  (a request about a file that is bad)
    """A file that can't be read to its end. The part that was read is not all of its content."""


@dataclass(frozen=True)
class Input:
    """A file of a corpus.

    name: as the user wrote it. at: an absolute path or an address, by which any process finds it. size: in bytes; 0
    for a stream (stdin, a pipe). parts: of a table, how many rows are read together, part after part; None otherwise.
    stamp: equal for a file that has not changed: its size and times, or the content tag of a store; "" if unknown.
    digest: of its content, or the tag of a store; "" until it is computed.
    """

    name: str
    at: str
    size: int
    parts: tuple[int, ...] | None = None
    stamp: str = ""
    digest: str = ""

    @property
    def is_stream(self) -> bool:
        """Return whether it can be read only once, and in one piece."""
        return self.size == 0 and not self.stamp and not is_address(self.at)

    @property
    def display_name(self) -> str:
        """The name in messages."""
        return display_name(self.name)


class Piece(NamedTuple):
    """The texts of a file that begin at `start` or later and before `stop`; None is the end of the file.

    Places are bytes; in a compressed file, bytes of its decompressed content; in a table, rows.
    """

    input: Input
    start: int = 0
    stop: int | None = None

    def holds(self, place: int) -> bool:
        """Return whether a place is before the end of the piece."""
        return self.stop is None or place < self.stop


def whole_files(inputs: Iterable[Input]) -> list[Piece]:
    """Return each file as one piece."""
    return [Piece(one) for one in inputs]


def display_name(name: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if name == STDIN else shorten(printable(name), 150)


def stamp_of(found: os.stat_result) -> str:
    """Return a stamp that changes when a file of this machine changes."""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


# --- their bytes ----------------------------------------------------------------------------------------

REQUESTED = 2**22  # bytes per request to a store
SLICE = 2**11  # bytes of zstd that are decompressed together: to 64 MB at most
WINDOW = 2**27  # bytes that zstd may look back: the limit of its own program


@contextmanager
def _reading_of(name: str) -> Iterator[None]:
    """Turn errors while a file is read into a BadFile that names it."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise BadFile(f"can't read {display_name(name)}: {describe_file_error(error)}{where_to_find(name)}") from error


@contextmanager
def open_input(one: Input, requested: int = REQUESTED) -> Iterator[BinaryIO]:
    """Open a file, decompressed. One that is neither compressed nor a stream can be sought in.

    Raises BadFile if it can't be read, or if its size has changed.
    """
    with _reading_of(one.name):
        if one.at == STDIN:
            yield sys.stdin.buffer
            return
        with stored(one, requested) as file:
            yield _decompressed(one.name, file)


@contextmanager
def stored(one: Input, requested: int = REQUESTED) -> Iterator[BinaryIO]:
    """Open a file as it is stored. Raises OSError, and BadFile if its size has changed."""
    if is_address(one.at):
        raw = Ranges(*filesystem(one.at))
        _check_size(one, raw.size)
        with io.BufferedReader(raw, requested) as file:
            yield file
    else:
        with Path(one.at).open("rb") if one.is_stream else open_regular(Path(one.at)) as file:
            _check_size(one, _regular_size(file))
            yield file
            _check_size(one, _regular_size(file))


def _regular_size(file: BinaryIO) -> int | None:
    """Return the size of a file; None for a stream."""
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _check_size(one: Input, size: int | None) -> None:
    if size not in (None, one.size):
        raise BadFile(f"{one.display_name} has changed: it had {one.size:,} bytes and has {size:,} now")


def _decompressed(name: str, file: BinaryIO) -> BinaryIO:
    match compression(name):
        case "gzip":
            return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
        case "zstd":
            return cast(BinaryIO, io.BufferedReader(_Zstd(file), 2**17))
    return file


class Ranges(io.RawIOBase):
    """A file at an address, read by ranges.

    fsspec's own files are not enough: those of memory:// share one position between readers, those of HTTP servers
    without ranges can't be sought in, and a short answer would pass for the end of the file.
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


class _Zstd(io.RawIOBase):
    """The content of zstd frames, one after the other.

    The file objects of zstandard read a file that is cut short as if it ended there. This one raises EOFError.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise RequestError(f"reading .zst needs zstandard: {install_hint('corpora')}") from error
        self.file = file
        self.zstd = zstandard.ZstdDecompressor(max_window_size=WINDOW)
        self.error = zstandard.ZstdError
        self.frame: ZstdDecompressionObj | None = None  # the frame that is being read
        self.left = b""  # bytes after a frame that were already read
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


# --- their digests --------------------------------------------------------------------------------------

_Stamps = Mapping[tuple[str, str], str]  # (at, stamp) -> digest
DIGESTED = 4  # files that are read at the same time
CHUNK = 2**20  # bytes


def digested(inputs: Iterable[Input], known: _Stamps = {}) -> list[Input]:  # noqa: B006  (it is only read)
    """Return the files with digests: SHA-256 of the stored bytes, or the tag of the store. A stream has none.

    known: earlier digests by place and stamp; those files are not read again.

    Raises BadFile for a file that can't be read, or that changes meanwhile.
    """
    found = [(one, _known_digest(one, known)) for one in inputs]
    with ThreadPoolExecutor(DIGESTED) as pool:
        read = pool.map(_content_digest, [one for one, digest in found if digest is None])
        return [replace(one, digest=next(read) if digest is None else digest) for one, digest in found]


def _known_digest(one: Input, known: _Stamps) -> str | None:
    """Return the digest of a file that need not be read; None where it has to be."""
    if one.is_stream:
        return ""
    if is_address(one.at):
        return one.stamp or None
    return known.get((one.at, one.stamp)) if one.stamp else None


def _content_digest(one: Input) -> str:
    """Return the SHA-256 of all bytes of a file. Raises BadFile as `digested`."""
    found = hashlib.sha256()
    with _reading_of(one.name):
        with stored(one) as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
        if one.stamp and not is_address(one.at) and stamp_of(Path(one.at).stat()) != one.stamp:
            raise BadFile(f"{one.display_name} has changed since it was found: run the command again")
    return found.hexdigest()
