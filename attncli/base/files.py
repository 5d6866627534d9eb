"""Files that appear whole or not at all."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from attncli.base.errors import RequestError
from attncli.base.making import making
from attncli.base.printable import quoted

LATEX = (".pgf", ".tex")
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
        raise RequestError(f"{path}: {what} is saved as {', '.join(known)}, {found}")
    return suffix
