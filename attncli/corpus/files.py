"""The files of a corpus: found and opened with fsspec, on this machine or at an address, and decompressed by suffix."""

import hashlib
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from attncli.base.addresses import convert_errors, describe_file_error, filesystem, is_address, local_path
from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import printable, shorten
from attncli.text.samples import where_to_find

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

STDIN = "-"
TEXT, JSON, PARQUET, ARROW, TREEBANK = (".txt",), (".jsonl", ".ndjson"), (".parquet",), (".arrow",), (".conllu",)
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd"}
CACHE = "cache-*.arrow"  # the copy of a dataset that `datasets` keeps beside it
MAGIC = re.compile(r"[*?\[]")
CHUNK = 2**20  # bytes

# --- kinds of files, by their names ---------------------------------------------------------------------


class FileKinds(NamedTuple):
    """The kinds of files that a command reads from a folder: their content in words, and their suffixes."""

    what: str
    suffixes: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Return whether a file of that name is one of them."""
        return suffix(name) in self.suffixes and not fnmatch(PurePosixPath(name).name, CACHE)


TEXTS = FileKinds("texts", TEXT + JSON + PARQUET + ARROW)
TREEBANKS = FileKinds("treebanks", TREEBANK)


def suffix(name: str) -> str:
    """Return the suffix of the decompressed file, in lower case: ".jsonl" for "a.JSONL.gz"."""
    path = PurePosixPath(name)
    return (PurePosixPath(path.stem) if path.suffix.lower() in COMPRESSED else path).suffix.lower()


def is_json(name: str) -> bool:
    return suffix(name) in JSON


def is_table(name: str) -> bool:
    """Return whether a file is a table. Tables are compressed inside: "a.parquet.gz" is none."""
    return PurePosixPath(name).suffix.lower() in PARQUET + ARROW


# --- finding --------------------------------------------------------------------------------------------


class InputFile(NamedTuple):
    """A file of a corpus. name: as the user wrote it; path: in its file system (`files`), or "-" for stdin."""

    name: str
    path: str
    files: "AbstractFileSystem | None" = None

    @property
    def display_name(self) -> str:
        """The name in messages."""
        return display_name(self.name)


def display_name(name: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if name == STDIN else shorten(printable(name), 150)


def find_inputs(names: Sequence[str], kinds: FileKinds = TEXTS) -> list[InputFile]:
    """Return the named files in the order of the names; a file that is named twice is there twice.

    A name is "-" (stdin), any file, a folder, or a pattern (`*`, `?`, `[...]`, `**` for nested folders). All except
    stdin may be addresses. A folder stands for its files of these kinds that are not hidden, sorted by path; a Notice
    counts the others. The name of an existing file is never a pattern.

    Raises RequestError for a name that leads to nothing.
    """
    return [one for name in names for one in _find(name, kinds)]


def _find(name: str, kinds: FileKinds) -> list[InputFile]:
    """Return the files that one name stands for."""
    if name == STDIN:
        return [InputFile(STDIN, STDIN)]
    from fsspec.implementations.local import LocalFileSystem

    if is_address(name):
        files, path = filesystem(name)
    else:
        files, path = LocalFileSystem(), str(local_path(name).absolute())
    with convert_errors("can't read", name):
        files.invalidate_cache(path)  # an earlier listing may be out of date
        if files.isdir(path):
            return _find_in_folder(name, files, path, kinds)
        if files.exists(path):
            return [InputFile(name, path, files)]
        if not MAGIC.search(name):
            raise RequestError(f"can't read {display_name(name)}: No such file or directory{where_to_find(name)}")
        fixed = len(PurePosixPath(re.split(MAGIC, path)[0] + "x").parts) - 1  # parts before the first wildcard
        found = [
            one for one in files.glob(path, detail=True).values() if one["type"] != "directory" and _shown(one, fixed)
        ]
    if not found:
        raise RequestError(f"no file matches {display_name(name)}")
    shown = files.unstrip_protocol if is_address(name) else str
    return [InputFile(shown(one["name"]), one["name"], files) for one in sorted(found, key=_parts)]


def _find_in_folder(name: str, files: "AbstractFileSystem", path: str, kinds: FileKinds) -> list[InputFile]:
    """Return the files of a folder that are of these kinds. A Notice names the others."""
    top = PurePosixPath(files.info(path)["name"])
    every = [one for one in files.find(path, detail=True).values() if _shown(one, len(top.parts))]
    found = [one for one in every if one["type"] == "file" or not files.isdir(one["name"])]  # no links to folders
    some = [one for one in found if kinds.has(one["name"])]
    if not some:
        what = f"{kinds.what} in it: {' '.join(kinds.suffixes)} (or compressed, .gz .zst)"
        raise RequestError(f"{display_name(name)} has no {what}")
    others = sorted({suffix(one["name"]) or _parts(one)[-1] for one in found if not kinds.has(one["name"])})
    if others:
        count = len(found) - len(some)
        left_out = f"{count:,} file{'s' if count > 1 else ''} of other kinds ({display_name(', '.join(others))})"
        warnings.warn(f"{display_name(name)}: left out {left_out}", Notice, stacklevel=2)
    inputs = []
    for one in sorted(some, key=_parts):
        if one["type"] != "file" and not files.isfile(one["name"]):
            raise RequestError(
                f"{display_name(one['name'])} is a pipe, or a link that leads nowhere: name the files that are meant"
            )
        inside = PurePosixPath(one["name"]).relative_to(top)
        inputs.append(InputFile(f"{name.rstrip('/')}/{inside}", one["name"], files))
    return inputs


def _parts(one: dict[str, Any]) -> tuple[str, ...]:
    return PurePosixPath(one["name"]).parts


def _shown(one: dict[str, Any], fixed: int) -> bool:
    """Return whether no part of a path after so many `fixed` ones is hidden."""
    return not any(part.startswith(".") for part in _parts(one)[fixed:])


# --- reading --------------------------------------------------------------------------------------------


class BadFile(RequestError):  # noqa: N818  (a request about a file that is bad)
    """A file that can't be read to its end."""


@contextmanager
def open_input(one: InputFile) -> Iterator[BinaryIO]:
    """Open a file, decompressed. Raises BadFile if it can't be read, here or inside the block."""
    try:
        if one.path == STDIN:
            yield sys.stdin.buffer
            return
        here = one.files is None or not is_address(one.name)  # fsspec's own files of this machine can't be pipes
        kind = COMPRESSED.get(PurePosixPath(one.name).suffix.lower())
        with Path(one.path).open("rb") if here else one.files.open(one.path, "rb") as raw:  # type: ignore[union-attr]
            if kind is None:
                yield raw
            elif kind == "zstd":  # zstandard ends without an error where a file is cut short, and after one frame
                pyarrow = import_arrow()
                yield io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), kind))
            else:
                from fsspec.compression import compr

                yield compr[kind](raw, mode="rb")
    except RequestError:
        raise
    except Exception as error:
        why = f"{describe_file_error(error)}{where_to_find(one.name)}"
        raise BadFile(f"can't read {one.display_name}: {why}") from error


def import_arrow() -> Any:
    """Return pyarrow. Raises RequestError if it is not installed."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise RequestError(f"reading .parquet, .arrow and .zst needs pyarrow: {install_hint('corpora')}") from error
    return pyarrow


def content_digest(one: InputFile) -> str | None:
    """Return the SHA-256 of a file's content, decompressed; None for stdin. Raises BadFile if it can't be read."""
    if one.path == STDIN:
        return None
    found = hashlib.sha256()
    with open_input(one) as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()
