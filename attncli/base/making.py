"""Where a file is before it is whole: in a folder of its own beside its place, which is gone when it is.

Whatever a library puts beside the file that it writes is in there too. A process that is killed can't remove its own:
the next one that writes there does.
"""

import os
import platform
import shutil
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
