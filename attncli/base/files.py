"""Files that appear whole or not at all, and documents saved as .json and .csv.

A file is made in a folder of its own beside its place, which is gone when it is whole. Anything that a library puts
beside the file that it writes is in there too. A process that is killed can't remove its own: the next one that writes
there does. Documents hold every text as it is: whoever prints one escapes it, and a token such as "=1" is no formula
to pandas. A spreadsheet must be told so ("import as text").
"""

import csv
import errno
import json
import os
import platform
import shutil
import stat
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import quoted

# With the name of this machine: of who is at work on another one that shares the place, nothing is known here.
PREFIX = f".attncli-{zlib.crc32(platform.node().encode()):08x}-"
UNDER_WAY: set[Path] = set()  # those of this process, and other files and folders that go when it ends
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=UNDER_WAY.clear)  # they stay the parent's
SETTLED = 1.0  # seconds after which a folder is locked, if anybody is at work in it


@contextmanager
def making(place: Path) -> Iterator[Path]:
    """A new folder in the folder `place`. Raises OSError when that is missing or can't be written to."""
    clear(place)
    folder = place / f"{PREFIX}{uuid.uuid4().hex[:16]}"
    UNDER_WAY.add(folder)  # before it is there: whoever interrupts this finds it
    handle = None
    try:
        folder.mkdir(mode=0o700)
        with suppress(OSError, ImportError):  # there are no locks here, so nobody clears
            handle = lock(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        UNDER_WAY.discard(folder)
        if handle is not None:
            os.close(handle)


def remove_all() -> None:
    """Remove those of this process, which is about to end."""
    for path in list(UNDER_WAY):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def clear(place: Path) -> None:
    """Remove such folders of processes that are no more: the system has taken their locks back."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError, ImportError):  # somebody is at work in it
            if time.time() - folder.stat().st_mtime > SETTLED:
                handle = lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)


def lock(folder: Path) -> int:
    """Take the folder until what is returned is closed, or this process ends. Raises OSError when it is taken."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


LATEX = (".pgf", ".tex")  # deprecated: they go in 0.4
PICTURES = (".png", ".svg", ".pdf", *LATEX)  # how pictures are saved
PAGE = ".html"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file of this name that is made elsewhere, then put it in the place of `path` in one step.

    Whatever goes wrong (a full disk, an interruption), `path` is what it was before and nothing else is left. A link
    stays one, and what it leads to is written. A device or a pipe, which can't be replaced, is written to.

    Raises RequestError when the folder is missing or can't be written to, the disk is full, or links go in a circle.
    """
    path = Path(path)
    try:
        mode = mode_of(path)
        if mode is None or stat.S_ISREG(mode):
            replace(Path(os.path.realpath(path)), write, 0o666 & ~current_umask() if mode is None else mode & 0o777)
        elif stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        else:
            pour(path, write)
    except OSError as error:
        raise RequestError(f"can't write {path}: {error.strerror or error}") from error


def mode_of(path: Path) -> int | None:
    """What stands there and who may do what with it; None where nothing does. Raises OSError in a circle of links."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def replace(target: Path, write: Callable[[Path], object], permissions: int) -> None:
    with making(target.parent) as folder:
        made = folder / target.name
        write(made)
        made.chmod(permissions)
        made.replace(target)


def pour(target: Path, write: Callable[[Path], object]) -> None:
    """Byte after byte: libraries look for a place in what they write, or put another file there."""
    with making(Path(tempfile.gettempdir())) as folder:
        made = folder / target.name
        write(made)
        with made.open("rb") as source, target.open("wb") as opened:
            shutil.copyfileobj(source, opened)


def current_umask() -> int:
    """The process's umask; the system only tells it while setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def check_suffix(path: Path, known: Collection[str], what: str) -> str:
    """The suffix of `path` in lower case. Raises RequestError, naming those that are known, for another."""
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        found = f"not {quoted(suffix)}" if suffix else "and this name has no suffix"
        named = ", ".join(one for one in known if one not in LATEX)
        raise RequestError(f"{path}: {what} is saved as {named}, {found}")
    return suffix


DOCUMENTS = (".json", ".csv")  # how documents are saved


def as_text(document: Mapping[str, Any]) -> str:
    """A document as --json prints it: one line of ASCII, which survives any terminal and encoding.

    Raises ValueError for NaN and infinity, which JSON has not.
    """
    return json.dumps(document, allow_nan=False) + "\n"


def save_document(document: Mapping[str, Any], entries: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Save by suffix: .json, what --json prints; .csv, a row for each of the `entries`. Whole or not at all.

    Columns are the fields of the entries. A field with fields of its own is a column for each, under both names
    ("causal_moved"); lists, which have no place in a cell, are left out.

    Raises RequestError for another suffix or an unwritable place.
    """
    if check_suffix(path, DOCUMENTS, "a document") == ".json":
        write_whole(path, lambda temporary: temporary.write_text(as_text(document), encoding="utf-8"))
    else:
        rows = [flat(entry) for entry in entries]
        header = list(dict.fromkeys(name for row in rows for name in row))
        write_whole(path, lambda file: write_table(header, ([row.get(name) for name in header] for row in rows), file))


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without its lists, and with the fields of its fields: {"a": 1, "b": {"c": 2}} has a and b_c."""
    row: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{inner}": found for inner, found in flat(value).items()}
        elif not isinstance(value, list):
            row[name] = value
    return row


def write_table(header: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> None:
    r"""A CSV file in UTF-8: one line of names, then the rows, each ending in \n. None is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        # Up to Python 3.12 a writer quotes only the characters that its own lines end in, and "\r" may be a token.
        lines = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
        writer = csv.writer(lines, lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows(rows)
