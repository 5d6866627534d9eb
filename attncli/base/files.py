"""Write files completely or not at all, and save documents as .json and .csv.

A file is written in a temporary folder beside its destination. The folder is removed when the file is complete. It also
holds anything that a library writes next to its output. A killed process can't remove its folder; the next process that
writes to the same place does.

Documents keep every text unchanged: callers that print a text escape it. pandas reads a token such as "=1" as text. In
a spreadsheet, import the columns as text.
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
from typing import TYPE_CHECKING, Any

from attncli.base.errors import RequestError
from attncli.base.printable import quoted

if TYPE_CHECKING:
    from pandas import DataFrame

# Contains the machine's name, since processes on other machines that share the drive can't be checked from here.
PREFIX = f".attncli-{zlib.crc32(platform.node().encode()):08x}-"
UNDER_WAY: set[Path] = set()  # this process's folders, and other paths to remove when it ends
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=UNDER_WAY.clear)  # they belong to the parent
SETTLED = 1.0  # seconds after which a folder in use is locked


@contextmanager
def making(place: Path) -> Iterator[Path]:
    """Make a temporary folder inside `place`. Raises OSError if `place` is missing or not writable."""
    clear(place)
    folder = place / f"{PREFIX}{uuid.uuid4().hex[:16]}"
    UNDER_WAY.add(folder)  # registered before it exists, so that an interruption removes it
    handle = None
    try:
        folder.mkdir(mode=0o700)
        with suppress(OSError, ImportError):  # without locks, nothing is removed
            handle = lock(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        UNDER_WAY.discard(folder)
        if handle is not None:
            os.close(handle)


def remove_all() -> None:
    """Remove the temporary paths of this process, which is about to end."""
    for path in list(UNDER_WAY):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def clear(place: Path) -> None:
    """Remove the folders of dead processes, whose locks the system has released."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError, ImportError):  # the folder is in use
            if time.time() - folder.stat().st_mtime > SETTLED:
                handle = lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)


def lock(folder: Path) -> int:
    """Lock the folder until the returned handle is closed or this process ends. Raises OSError if it is locked."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def keep_folder(folder: Path, make: Callable[[Path], object], is_whole: Callable[[Path], bool]) -> None:
    """Let `make` make a new folder, then move it to its place, unless another process was faster."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with making(folder.parent) as work:
        made = work / "made"
        make(made)
        if folder.exists() and not is_whole(folder):  # someone removed its files
            folder.rename(work / "damaged")
        try:
            made.rename(folder)
        except OSError:
            if not is_whole(folder):
                raise


PICTURES = (".png", ".svg", ".pdf")  # formats of pictures
PAGE = ".html"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file of this name, then replace `path` with it in one step.

    If anything fails (a full disk, an interruption), `path` is unchanged and nothing else remains. A symbolic link
    stays a link, and its target is replaced. A device or pipe can't be replaced and is written to.

    Raises RequestError if the folder is missing or not writable, the disk is full, or links form a cycle.
    """
    path = Path(path)
    try:
        mode = mode_of(path)
        if mode is None or stat.S_ISREG(mode):
            replace(Path(os.path.realpath(path)), write, 0o666 & ~current_umask() if mode is None else mode & 0o777)
        elif stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        else:  # copy its bytes, since libraries seek in their output or replace it
            with making(Path(tempfile.gettempdir())) as folder:
                write(folder / path.name)
                with (folder / path.name).open("rb") as source, path.open("wb") as opened:
                    shutil.copyfileobj(source, opened)
    except OSError as error:
        raise RequestError(f"can't write {path}: {error.strerror or error}") from error


def check_place(path: Path) -> None:
    """Raises RequestError if `write_whole` could not write to this path. Writes nothing."""
    try:
        mode = mode_of(path)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        written = path if mode is not None and not stat.S_ISREG(mode) else Path(os.path.realpath(path)).parent
        written.stat()
        if not os.access(written, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise RequestError(f"can't write {path}: {error.strerror or error}") from error


def make_folder(folder: Path) -> None:
    """Make a folder if it is missing. Raises RequestError if nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"can't make the folder {folder}: {error.strerror or error}") from error
    if not os.access(folder, os.W_OK):
        raise RequestError(f"can't write into {folder}: name another folder")


def mode_of(path: Path) -> int | None:
    """Return the mode of a path, or None if it does not exist. Raises OSError if links form a cycle."""
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


def current_umask() -> int:
    """Return the process's umask. The system reports it only when a new one is set."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def check_suffix(path: Path, known: Collection[str], what: str) -> str:
    """Return the suffix of `path` in lower case. Raises RequestError, listing the valid suffixes, for any other."""
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        found = f"not {quoted(suffix)}" if suffix else "but this name has no suffix"
        other = {PAGE: "; attncli view makes a page of maps", **dict.fromkeys(PICTURES, "; attncli heatmap draws maps")}
        raise RequestError(f"{path}: {what} is saved as {', '.join(known)}, {found}{other.get(suffix, '')}")
    return suffix


DOCUMENTS = (".json", ".csv")


def as_text(document: Mapping[str, Any]) -> str:
    """Return a document as --json prints it: one line of ASCII, which is safe in any terminal and encoding.

    Raises ValueError for NaN and infinity, which JSON does not support.
    """
    return json.dumps(document, allow_nan=False) + "\n"


def as_dataframe(columns: Mapping[str, Any]) -> "DataFrame":
    """Return a pandas DataFrame of these columns. Raises RequestError if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise RequestError("a DataFrame needs pandas, which is not installed: pip install pandas") from error
    return pandas.DataFrame(columns)


def table_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the fields of entries as columns.

    A nested field becomes one column per inner field, under both names ("causal_moved"). Lists do not fit a cell and
    are omitted.
    """
    rows = [flat(entry) for entry in entries]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def save_document(document: Mapping[str, Any], entries: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Save by suffix: .json as --json prints it, or .csv with one row per entry. Writes completely or not at all.

    Raises RequestError for another suffix or an unwritable place.
    """
    if check_suffix(path, DOCUMENTS, "a document") == ".json":
        write_whole(path, lambda temporary: temporary.write_text(as_text(document), encoding="utf-8"))
    else:
        columns = table_of(entries)
        write_whole(path, lambda file: write_table(list(columns), zip(*columns.values(), strict=True), file))


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without its lists and with nested fields flattened: {"a": 1, "b": {"c": 2}} has a and b_c."""
    row: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{inner}": found for inner, found in flat(value).items()}
        elif not isinstance(value, list):
            row[name] = value
    return row


def write_table(header: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> None:
    r"""Write a CSV file in UTF-8: one line of names, then the rows, each ending in \n. None is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        # Up to Python 3.12 a writer quotes only the characters of its own line ending, and "\r" may be a token.
        lines = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
        writer = csv.writer(lines, lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows(rows)
