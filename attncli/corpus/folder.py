"""A folder in which sums are kept, on this machine or at an address: a small file per shard, and the plan.

A file appears whole or not at all. Writing one again changes nothing, because its content is the same. So object
stores, which have no locks, need none.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from attncli.base import files as base_files
from attncli.base.addresses import convert_errors, filesystem, is_address, local_path
from attncli.base.errors import RequestError
from attncli.base.files import making
from attncli.base.printable import first_line, printable, shorten
from attncli.base.schema import anything, fields, integer, list_of, name, text
from attncli.base.untrusted import READING, kind_of, open_regular, parse_json
from attncli.corpus.files import Input
from attncli.corpus.shards import VERSION

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNDER_WAY = "under-way"  # the folder of files that are being written
LONGEST = 2**30  # bytes of a file: enough for a plan of millions of inputs


def folder_at(name: str) -> "Folder":
    """Return a folder, which is made at the first write. Raises RequestError for a name that can't be a folder."""
    if not name.strip():
        raise RequestError("a folder for sums has to have a name")
    return Remote(name) if is_address(name) else Local(local_path(name).absolute(), name)


class Local:
    """A folder of this machine.

    name: as messages name it. everywhere: whether every machine finds the same folder under this name. The methods
    raise RequestError for what is not possible.
    """

    everywhere = False

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        try:
            is_file = path.exists() and not path.is_dir()
        except OSError as error:
            raise RequestError(f"can't read {name}: {error.strerror or error}") from error
        if is_file:
            raise RequestError(f"{name} is a file, and sums are kept in a folder: name another place")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder by a file in it. A folder that was made for it is removed at the end if it is empty."""
        is_new = not self.path.exists()
        base_files.make_folder(self.path)
        lock, under_way = self.path / "lock", self.path / UNDER_WAY
        if is_new:  # a signal from now on removes them; in an older folder they may be another process's
            base_files.UNDER_WAY.update((lock, under_way))
        try:
            handle = _open_locked(lock, self.name)
        except RequestError:
            base_files.UNDER_WAY.difference_update((lock, under_way))
            raise
        base_files.UNDER_WAY.update((lock, under_way))
        try:
            yield
        finally:
            if under_way.is_dir():  # a pipe of that name would wait for a writer
                shutil.rmtree(under_way, ignore_errors=True)  # with files of processes that were killed
            with suppress(OSError):
                lock.unlink()
            base_files.UNDER_WAY.difference_update((lock, under_way))
            if is_new:
                with suppress(OSError):  # it is not empty
                    self.path.rmdir()
            if handle is not None:
                os.close(handle)

    def names(self) -> set[str]:
        """Return the names of all files."""
        try:
            with os.scandir(self.path) as entries:
                return {entry.name for entry in entries}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise RequestError(f"can't read {self.name}: {error.strerror or error}") from error

    def read(self, name: str) -> bytes | None:
        """Read a file; None if there is none."""
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
        base_files.make_folder(under_way)
        try:
            with making(under_way) as folder:
                (folder / name).write_bytes(content)
                (folder / name).replace(self.path / name)
        except OSError as error:
            raise RequestError(f"can't write {self.name}/{name}: {error.strerror or error}") from error


def _open_locked(path: Path, folder: str) -> int | None:
    """Open a file, which is made if missing, and lock it (flock) until it is closed or its process ends.

    Returns None on Windows, which has no such lock; there, and on some network drives, nothing keeps a second process
    out. Raises RequestError if another process holds it, it is not a regular file, or it can't be opened.
    """
    try:
        while True:
            handle = os.open(path, READING | os.O_CREAT, 0o666)  # does not wait for a pipe
            try:
                if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
                    raise RequestError(f"{path} is {kind_of(mode)}: name a regular file")
                _lock(handle)
                if fcntl is not None and _is_at(handle, path):  # its last holder has not removed it meanwhile
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            if fcntl is None:
                return None
    except BlockingIOError as error:
        raise RequestError(
            f"{folder} is in use by another attncli: wait until it ends, or name another folder"
        ) from error
    except (OSError, ValueError) as error:
        raise RequestError(f"can't open {path}: {getattr(error, 'strerror', None) or error}") from error


def _lock(handle: int) -> None:
    """Lock an open file. Raises BlockingIOError if another process holds it."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a network drive without locks


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


class Remote:
    """A folder at an address, with the methods of `Local`."""

    everywhere = True

    def __init__(self, name: str) -> None:
        self.name = name.rstrip("/")
        self.files, self.path = filesystem(self.name)

    def locked(self) -> AbstractContextManager[object]:
        return nullcontext()

    def names(self) -> set[str]:
        with convert_errors("can't read", self.name):
            self.files.invalidate_cache(self.path)
            try:
                found = self.files.ls(self.path, detail=False)
            except FileNotFoundError:
                return set()
            return {name.rstrip("/").rsplit("/", 1)[-1] for name in found}

    def read(self, name: str) -> bytes | None:
        with convert_errors("can't read", f"{self.name}/{name}"):
            try:
                return self.files.cat_file(f"{self.path}/{name}")
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        with convert_errors("can't write", f"{self.name}/{name}"):
            self.files.makedirs(self.path, exist_ok=True)
            self.files.pipe_file(f"{self.path}/{name}", content)


Folder = Local | Remote

# --- its plan -------------------------------------------------------------------------------------------

PLAN = "plan.json"
INPUT = fields({"at": name(), "bytes": integer(), "digest": text(200), "stamp": text(200)})
FIXED = fields(  # each work has some of them
    {"shard_bytes": integer(1)},
    {
        "threads": integer(1, 64),
        "batch_tokens": integer(1, 2**24),
        "block_weights": integer(1, 2**34),
        "laid_out": integer(0, 1),
    },
)
ABOUT = fields({"version": integer(), "asked": anything, "fixed": FIXED, "inputs": list_of(INPUT)})


def bad_plan(folder: str | None, error: Exception) -> RequestError:
    """Return the error for a plan that no run has written."""
    return RequestError(f"{folder}/{PLAN} is no plan ({first_line(error)}): name another folder")


class State:
    """The plan in a folder: what was asked of which inputs, and the numbers that later runs take over.

    Raises RequestError for a folder with another content.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        content = folder.read(PLAN)
        self.about: dict[str, Any] | None = None  # of a new folder
        if content is not None:
            try:
                self.about = parse_json(content)
                ABOUT(self.about, "it")
                fields({}, dict.fromkeys(self.about["asked"], anything))(self.about["asked"], "asked")
            except (ValueError, TypeError) as error:
                raise bad_plan(folder.name, error) from error

    @property
    def fixed(self) -> dict[str, int] | None:
        """The numbers that the first run has fixed, such as the size of batches."""
        return None if self.about is None else self.about["fixed"]

    @property
    def stamps(self) -> dict[tuple[str, str], str]:
        """The digests of the inputs, by their places and stamps."""
        inputs = [] if self.about is None else self.about["inputs"]
        return {(one["at"], one["stamp"]): one["digest"] for one in inputs}

    def check(self, request: dict[str, Any]) -> None:
        """Raises RequestError, with the first difference, if the folder was begun with another request."""
        if self.about is None:
            return
        if self.about["version"] != VERSION:
            raise self._differs("version of attncli")
        before, now = self.about["asked"], json.loads(json.dumps(request))
        for option in {**now, **before}:
            if before.get(option) != now.get(option):
                raise self._differs(option)

    def agree(self, request: dict[str, Any], fixed: Mapping[str, int], inputs: Sequence[Input]) -> None:
        """Write the plan of a new folder. Raises RequestError if another folder has other inputs."""
        if self.about is None:
            kept = [{"at": one.at, "bytes": one.size, "digest": one.digest, "stamp": one.stamp} for one in inputs]
            about = {"version": VERSION, "asked": request, "fixed": dict(fixed), "inputs": kept}
            self.folder.write(PLAN, json.dumps(about, indent=1).encode())
            return
        for place, (one, other) in enumerate(zip(inputs, self.about["inputs"], strict=False)):
            if one.digest != other["digest"]:
                raise RequestError(
                    f"{self.folder.name} is of another corpus: input {place + 1}, {printable(one.name)}, is not what "
                    f"{printable(other['at'])} was; put it back, or name another folder"
                )
        if len(inputs) != len(self.about["inputs"]):
            raise RequestError(
                f"{self.folder.name} is of another corpus: it had {len(self.about['inputs'])} inputs, and here are "
                f"{len(inputs)}; name the same, or another folder"
            )

    def _differs(self, what: str) -> RequestError:
        other = shorten(printable(what), 50)
        return RequestError(
            f"{self.folder.name} was begun with another {other}: ask for the same, or name another folder"
        )
