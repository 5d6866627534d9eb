"""A file that is one process's as long as it runs, although every save replaces it. Whoever else wants it is told.

What keeps others out is the system's lock on the file itself (flock), which ends with its process however that ends:
there is no second file that could be left behind. Windows and some network drives have no such lock: nobody is told
there.
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


class HeldFile:
    """Made where there is none, empty; removed at the end if it still is.

    Raises RequestError when another process holds it, it is no file, or can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = not path.exists()
        self.handle = open_locked(path)

    def save(self, write: Callable[[BinaryIO], object]) -> None:
        """Replace it by what `write` writes, whole or not at all. Raises RequestError for an unwritable place."""
        replacing: list[int] = []

        def write_locked(temporary: Path) -> None:
            with temporary.open("wb") as file:
                write(file)
            if fcntl is not None:
                replacing.append(os.open(temporary, os.O_RDONLY))
                lock(replacing[0])  # before it takes the other's place: nobody may come between

        try:
            write_whole(self.path, write_locked)
        except BaseException:
            for handle in replacing:
                os.close(handle)
            raise
        self.close()
        self.handle = replacing[0] if replacing else None

    def release(self) -> None:
        """Let others have it."""
        if self.made:
            with suppress(OSError):  # it is gone, or may not be removed
                target = Path(os.path.realpath(self.path))
                if target.stat().st_size == 0:
                    target.unlink()
        self.close()

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
        self.handle = None


def open_locked(path: Path) -> int | None:
    """What holds a file as long as it is open; None where there are no locks. Raises RequestError as `HeldFile`."""
    try:
        while True:
            handle = os.open(path, READING | os.O_CREAT, 0o666)  # a pipe is not waited for
            try:
                if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
                    raise RequestError(f"{path} is {kind_of(mode)}: name a file that can be kept up to date")
                lock(handle)
                if fcntl is not None and is_at(handle, path):  # and not what another process has just replaced
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
    """Raises BlockingIOError when another process has it."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a network drive that has no locks


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
