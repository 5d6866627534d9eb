"""A folder in which sums are kept, one small file a shard: on this machine, or by address.

A file appears whole or not at all. Writing one again changes nothing, as it says the same: stores of objects, which
have no locks, need none.
"""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from attncli.base.addresses import filesystem, is_address, local_path, told
from attncli.base.errors import RequestError
from attncli.base.files import UNDER_WAY as PASSING
from attncli.base.files import making
from attncli.base.held import HeldFile
from attncli.base.untrusted import open_regular

UNDER_WAY = "under-way"  # where files are before they are whole
LONGEST = 2**30  # bytes of a file: a plan of some millions of inputs fits


class Folder(Protocol):
    """name: as messages say it; everywhere: whether it is the same folder on every machine."""

    name: str
    everywhere: bool

    def held(self) -> AbstractContextManager[object]:
        """Nobody else may write here meanwhile. Raises RequestError when somebody does."""

    def names(self) -> set[str]:
        """Of all files. Raises RequestError where that can't be said."""

    def read(self, name: str) -> bytes | None:
        """None where there is no such file. Raises RequestError where there is and it can't be read."""

    def write(self, name: str, content: bytes) -> None:
        """Raises RequestError where that can't be."""


def folder_at(name: str) -> Folder:
    """Made when something is written to it. Raises RequestError as `filesystem`, and for what is no folder."""
    if not name.strip():
        raise RequestError("a folder for sums has to have a name")
    return Remote(name) if is_address(name) else Local(local_path(name).absolute(), name)


class Local:
    everywhere = False

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            raise RequestError(f"can't read {name}: {error.strerror or error}") from error
        if is_file:
            raise RequestError(f"{name} is a file, and sums are kept in a folder: name another place")

    def held(self) -> AbstractContextManager[object]:
        is_new = not self.path.exists()
        self.made(self.path)
        return Held(self.path, self.name, is_new)

    def made(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"can't make the folder {self.name}: {error.strerror or error}") from error

    def names(self) -> set[str]:
        try:
            with os.scandir(self.path) as entries:
                return {entry.name for entry in entries}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise RequestError(f"can't read {self.name}: {error.strerror or error}") from error

    def read(self, name: str) -> bytes | None:
        try:
            with open_regular(self.path / name) as file:
                if os.fstat(file.fileno()).st_size > LONGEST:
                    raise RequestError(f"{self.name}/{name} is longer than {LONGEST:,} bytes: remove it")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            why = f"{error.strerror or error}: remove it, or name another folder"
            raise RequestError(f"can't read {self.name}/{name}: {why}") from error

    def write(self, name: str, content: bytes) -> None:
        under_way = self.path / UNDER_WAY
        self.made(under_way)
        try:
            with making(under_way) as folder:
                (folder / name).write_bytes(content)
                (folder / name).replace(self.path / name)
        except OSError as error:
            raise RequestError(f"can't write {self.name}/{name}: {error.strerror or error}") from error


class Held:
    """A folder with a file in it that is locked as long as this process has it. is_new: it is gone again afterwards if
    nothing else is in it.
    """

    def __init__(self, path: Path, folder: str, is_new: bool) -> None:
        self.path, self.is_new = path, is_new
        self.passing = (path / "lock", path / UNDER_WAY)
        if is_new:  # so that a signal from now on leaves none; in a folder that was there it may be another's
            PASSING.update(self.passing)
        try:
            self.file = HeldFile(path / "lock")
        except RequestError as error:
            PASSING.difference_update(self.passing)
            if isinstance(error.__cause__, BlockingIOError):
                raise RequestError(
                    f"{folder} is in use by another attncli: wait until it ends, or name another folder"
                ) from error
            raise
        PASSING.update(self.passing)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        under_way = self.path / UNDER_WAY
        if under_way.is_dir():  # of a pipe it would be waited for who writes
            shutil.rmtree(under_way, ignore_errors=True)  # also of processes that were killed: it is held here
        with suppress(OSError):
            self.file.path.unlink()
        PASSING.difference_update(self.passing)
        if self.is_new:
            with suppress(OSError):  # something is in it
                self.path.rmdir()
        self.file.release()


class Remote:
    everywhere = True

    def __init__(self, name: str) -> None:
        self.name = name.rstrip("/")
        self.files, self.path = filesystem(self.name)

    def held(self) -> AbstractContextManager[object]:
        return nullcontext()

    def names(self) -> set[str]:
        with told("can't read", self.name):
            self.files.invalidate_cache(self.path)
            try:
                found = self.files.ls(self.path, detail=False)
            except FileNotFoundError:
                return set()
            return {name.rstrip("/").rsplit("/", 1)[-1] for name in found}

    def read(self, name: str) -> bytes | None:
        with told("can't read", f"{self.name}/{name}"):
            try:
                content: bytes = self.files.cat_file(f"{self.path}/{name}")
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, content: bytes) -> None:
        with told("can't write", f"{self.name}/{name}"):
            self.files.makedirs(self.path, exist_ok=True)
            self.files.pipe_file(f"{self.path}/{name}", content)
