"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from attncli.base.errors import RequestError

PICTURES = (".png", ".svg", ".pdf")  # how pictures are saved


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place in one step.

    Whatever goes wrong (a full disk, an interruption), `path` is what it was before and nothing else is left.
    The temporary file keeps the suffix, which some libraries choose their format by.

    Raises RequestError when the folder is missing or can't be written to, or the disk is full.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        if path.exists() and not path.is_file():  # /dev/stdout, a named pipe: nothing to replace
            write(path)
            return
        target = Path(os.path.realpath(path))  # a link stays a link
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".attncli-", suffix=target.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~current_umask())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise RequestError(f"can't write {path}: {error.strerror or error}") from error


def current_umask() -> int:
    """The process's umask; the system only tells it while setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def check_suffix(path: Path, known: Collection[str], what: str) -> str:
    """The suffix of `path` in lower case. Raises RequestError, naming those that are known, for another."""
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        found = f"not {suffix!r}" if suffix else "and this name has no suffix"
        raise RequestError(f"{path}: {what} is saved as {', '.join(known)}, {found}")
    return suffix
