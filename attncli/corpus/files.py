"""Find and open the files of a corpus with fsspec, local or remote, and decompress them by suffix."""

import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line, printable, shorten
from attncli.text.samples import where_to_find

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

STDIN = "-"
JSON, TABLES = (".jsonl", ".ndjson"), (".parquet", ".arrow")
TEXTS, TREEBANKS = (".txt", *JSON, *TABLES), (".conllu",)  # files that are read from a folder
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd"}
MAGIC = re.compile(r"[*?\[]")


class BadFile(RequestError):  # noqa: N818  (a request about a file that is bad)
    """Raised for a file that can't be read to its end."""


@contextmanager
def file_errors(action: str, name: str) -> Iterator[None]:
    """Convert any exception inside the block to a BadFile with the failed action and the file."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        why = shorten(printable(getattr(error, "strerror", None) or ""), 150) or first_line(error)
        if isinstance(error, FileNotFoundError):
            why = "No such file or directory"  # the errors of some stores contain only the name
        raise BadFile(f"{action} {display_name(name)}: {why}{where_to_find(name)}") from error


def display_name(name: str) -> str:
    """Return the name of a file in messages."""
    return "stdin" if name == STDIN else shorten(printable(name), 150)


def suffix(name: str) -> str:
    """Return the suffix of the decompressed file, in lower case: ".jsonl" for "a.JSONL.gz"."""
    path = PurePosixPath(name)
    return (PurePosixPath(path.stem) if path.suffix.lower() in COMPRESSED else path).suffix.lower()


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


def find_inputs(names: Sequence[str], kinds: Sequence[str] = TEXTS) -> list[InputFile]:
    """Return the named files in the order of the names. Duplicates are kept.

    A name is "-" (stdin), any file, a folder, or a pattern (`*`, `?`, `[...]`, `**` for nested folders). All except
    stdin may be URLs that fsspec supports. A folder means its visible files with these suffixes, sorted by path; a
    Notice counts the others. The name of an existing file is never a pattern. Raises RequestError for a name that
    matches nothing.
    """
    return [one for name in names for one in _find(name, kinds)]


def _find(name: str, kinds: Sequence[str]) -> list[InputFile]:
    """Return the files that one name matches."""
    if name == STDIN:
        return [InputFile(STDIN, STDIN)]
    from fsspec.core import url_to_fs

    with file_errors("can't read", name):
        files, path = url_to_fs(name)
        files.invalidate_cache(path)  # an earlier listing may be out of date
        if files.isdir(path):
            return _find_in_folder(name, files, path, kinds)
        if files.exists(path):
            return [InputFile(name, path, files)]
        if not MAGIC.search(name):
            raise FileNotFoundError
        fixed = len(PurePosixPath(re.split(MAGIC, path)[0] + "x").parts) - 1  # parts before the first wildcard
        every = files.glob(path, detail=True).items()
        found = [one for one, info in every if info["type"] != "directory" and not _is_hidden(one, fixed)]
    if not found:
        raise RequestError(f"no file matches {display_name(name)}")
    shown = files.unstrip_protocol if "://" in name else str
    return [InputFile(shown(one), one, files) for one in sorted(found, key=_parts)]


def _find_in_folder(name: str, files: "AbstractFileSystem", path: str, kinds: Sequence[str]) -> list[InputFile]:
    """Return the files of a folder with these suffixes. A Notice names the others."""
    top = len(_parts(path))
    every = files.find(path, detail=True).items()
    found = [one for one, info in every if not _is_hidden(one, top) and (info["type"] == "file" or files.isfile(one))]
    # `datasets` caches copies of a dataset next to it.
    some = [one for one in found if suffix(one) in kinds and not fnmatch(_parts(one)[-1], "cache-*.arrow")]
    if not some:
        raise RequestError(f"{display_name(name)} contains no files ending in {' '.join(kinds)} (or .gz, .zst)")
    if others := sorted({suffix(one) or _parts(one)[-1] for one in set(found) - set(some)}):
        count = len(found) - len(some)
        left_out = f"{count:,} file{'s' if count > 1 else ''} of other kinds ({display_name(', '.join(others))})"
        warnings.warn(f"{display_name(name)}: skipped {left_out}", Notice, stacklevel=2)
    inside = name.rstrip("/")
    return [InputFile("/".join([inside, *_parts(one)[top:]]), one, files) for one in sorted(some, key=_parts)]


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parts


def _is_hidden(path: str, fixed: int) -> bool:
    """Return whether any part of a path after the first `fixed` ones is hidden."""
    return any(part.startswith(".") for part in _parts(path)[fixed:])


# --- reading --------------------------------------------------------------------------------------------


@contextmanager
def open_input(one: InputFile) -> Iterator[BinaryIO]:
    """Open a file, decompressed. Raises BadFile if it can't be read, here or inside the block."""
    with file_errors("can't read", one.name):
        if one.files is None:
            yield sys.stdin.buffer
            return
        kind = COMPRESSED.get(PurePosixPath(one.name).suffix.lower())
        here = "file" in one.files.protocol  # fsspec can't open local pipes
        with Path(one.path).open("rb") if here else one.files.open(one.path, "rb") as raw:
            if kind is None:
                yield raw
            elif kind == "zstd":  # zstandard stops without an error at a truncation, and after one frame
                pyarrow = import_arrow()
                yield io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), kind))
            else:
                from fsspec.compression import compr

                yield compr[kind](raw, mode="rb")


def import_arrow() -> Any:
    """Return pyarrow. Raises RequestError if it is not installed."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise RequestError(f"reading .parquet, .arrow and .zst needs pyarrow: {install_hint('corpora')}") from error
    return pyarrow
