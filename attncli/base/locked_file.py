"""Reserve a file for one process as long as it runs, although every save replaces the file.

The system's lock on the file itself (flock) keeps other processes out. It ends with its process, so no stale lock file
can remain. Windows and some network drives have no such lock; there, nothing warns a second process.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.untrusted import READING, kind_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class LockedFile:
    """A file reserved for this process. Created empty if missing; removed on release if it is still empty.

    Raises RequestError if another process holds it, it is not a regular file, or it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = not path.exists()
        self.handle = open_locked(path)

    def save(self, write: Callable[[BinaryIO], object]) -> None:
        """Replace the file with what `write` writes, completely or not at all. Raises RequestError for an unwritable
        place.
        """
        replacing: list[int] = []

        def write_locked(temporary: Path) -> None:
            with temporary.open("wb") as file:
                write(file)
            if fcntl is not None:
                replacing.append(os.open(temporary, os.O_RDONLY))
                lock(replacing[0])  # before it replaces the other: no process may lock it in between

        try:
            write_whole(self.path, write_locked)
        except BaseException:
            for handle in replacing:
                os.close(handle)
            raise
        self.close()
        self.handle = replacing[0] if replacing else None

    def release(self) -> None:
        """Release the file, and remove it if this process created it and it is empty."""
        if self.made:
            with suppress(OSError):  # it is gone or can't be removed
                target = Path(os.path.realpath(self.path))
                if target.stat().st_size == 0:
                    target.unlink()
        self.close()

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
        self.handle = None


def open_locked(path: Path) -> int | None:
    """Open and lock a file; return None on systems without locks. Raises RequestError as `LockedFile` does."""
    try:
        while True:
            handle = os.open(path, READING | os.O_CREAT, 0o666)  # does not wait for a pipe
            try:
                if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
                    raise RequestError(f"{path} is {kind_of(mode)}: name a regular file")
                lock(handle)
                if fcntl is not None and is_at(handle, path):  # not replaced by another process meanwhile
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            if fcntl is None:
                return None
    except BlockingIOError as error:
        raise RequestError(f"{path} is in use by another attncli: wait until it ends, or name another file") from error
    except (OSError, ValueError) as error:
        raise RequestError(f"can't open {path}: {getattr(error, 'strerror', None) or error}") from error


def lock(handle: int) -> None:
    """Lock an open file. Raises BlockingIOError if another process holds it."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a network drive without locks


def is_at(handle: int, path: Path) -> bool:
    """Return True if an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
