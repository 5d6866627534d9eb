"""Where files of a corpus are looked for: on this machine, or by address."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

from attncli.base.addresses import filesystem, is_address, local_path, said, told
from attncli.base.errors import RequestError
from attncli.base.untrusted import read_regular
from attncli.corpus.inputs.files import Input, shown
from attncli.text.samples import where_to_find

MAGIC = re.compile(r"[*?\[]")
# By which stores tell one content from another, those first that say most of the content alone.
TAGS = ("sha256", "md5Hash", "content_md5", "xet_hash", "blob_id", "ETag", "etag", "e_tag", "generation", "crc32c")


class Found(NamedTuple):
    """A file in a folder: its path from there, in parts, and itself."""

    parts: tuple[str, ...]
    file: Input


class Store(Protocol):
    """Finds what a name means there. All raise RequestError for what can't be looked at."""

    def file(self, name: str) -> Input | None:
        """None where it is a folder or is not there."""

    def folder(self, name: str) -> list[Found] | None:
        """Its files and those of folders in it, but hidden ones, sorted; None where it is none."""

    def matching(self, pattern: str) -> list[Input]:
        """Files, sorted, but hidden ones."""

    def content(self, file: Input) -> bytes:
        """Of a small one."""

    def missing(self, name: str) -> RequestError:
        """What to raise where there is no such thing."""


def store_of(name: str) -> Store:
    return ByAddress() if is_address(name) else Here()


class Here:
    """Files of this machine."""

    def file(self, name: str) -> Input | None:
        path = local_path(name)
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                return None
            raise RequestError(f"can't read {shown(name)}: {said(error)}") from error
        return None if stat.S_ISDIR(found.st_mode) else input_here(name, path, found)

    def folder(self, name: str) -> list[Found] | None:
        top = local_path(name)
        return sorted(self.under(top), key=attrgetter("parts")) if top.is_dir() else None

    def under(self, top: Path) -> Iterator[Found]:
        def refuse(error: OSError) -> None:
            raise RequestError(f"can't read {shown(str(error.filename))}: {said(error)}") from error

        for folder, folders, files in os.walk(top, onerror=refuse):
            folders[:] = [one for one in folders if not is_hidden(one)]
            for file in files:
                path = Path(folder, file)
                if not is_hidden(file):
                    one = self.file(str(path)) or Input(str(path), str(path.absolute()), 0)
                    yield Found(path.relative_to(top).parts, one)

    def matching(self, pattern: str) -> list[Input]:
        pattern = str(local_path(pattern))
        fixed = before_magic(pattern)
        every = glob.glob(pattern, recursive=True)  # noqa: PTH207  (that of a path has another `**` in each Python)
        names = sorted(every, key=lambda name: PurePosixPath(name).parts)
        if "**" in pattern:
            names = [name for name in names if not through_link(Path(name), fixed)]
        return [file for name in names if (file := self.file(name)) is not None]

    def content(self, file: Input) -> bytes:
        try:
            return read_regular(Path(file.at))
        except OSError as error:
            raise RequestError(f"can't read {file.shown}: {said(error)}") from error

    def missing(self, name: str) -> RequestError:
        return RequestError(f"can't read {shown(name)}: No such file or directory{where_to_find(name)}")


def before_magic(pattern: str) -> int:
    """How many parts of a pattern are as they are."""
    return next((n for n, part in enumerate(PurePosixPath(pattern).parts) if MAGIC.search(part)), 0)


def input_here(name: str, path: Path, found: os.stat_result) -> Input:
    """A file of this machine, or a stream."""
    at = Path(
        os.path.realpath(path) if path.is_relative_to("/dev") else path
    ).absolute()  # /dev/stdin is each process's own
    if not stat.S_ISREG(found.st_mode) or not at.exists():
        return Input(name, str(path.absolute()), 0)
    return Input(name, str(at), found.st_size, stamp=f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")


def is_hidden(part: str) -> bool:
    return part.startswith(".") and part not in (".", "..")


def through_link(path: Path, fixed: int) -> bool:
    """Whether a folder on the way to a file, after so many parts, is a link: these may go in circles."""
    return any(Path(*path.parts[:count]).is_symlink() for count in range(fixed + 1, len(path.parts)))


class ByAddress:
    """Files that fsspec finds."""

    def file(self, name: str) -> Input | None:
        files, path = filesystem(name)
        with told("can't read", name):
            files.invalidate_cache(path)  # what was listed before may have changed
            try:
                about = files.info(path)
            except FileNotFoundError:
                return None
        return None if about["type"] == "directory" else remote(name, about)

    def folder(self, name: str) -> list[Found] | None:
        files, path = filesystem(name)
        with told("can't read", name):
            if not files.isdir(path):
                return None
            top = files.info(path)["name"].rstrip("/")
            found = files.find(path, detail=True)
            every = (
                Found(PurePosixPath(at).relative_to(top).parts, remote(files.unstrip_protocol(at), about))
                for at, about in found.items()
                if is_file(at, about)
            )
            shown = (one for one in every if not any(map(is_hidden, one.parts)))
            return sorted(shown, key=attrgetter("parts"))

    def matching(self, pattern: str) -> list[Input]:
        files, path = filesystem(pattern)
        fixed = before_magic(path)
        with told("can't read", pattern):
            return [
                remote(files.unstrip_protocol(at), about)
                for at, about in sorted(files.glob(path, detail=True).items())
                if is_file(at, about) and not any(map(is_hidden, PurePosixPath(at).parts[fixed:]))
            ]

    def content(self, file: Input) -> bytes:
        files, path = filesystem(file.at)
        with told("can't read", file.name):
            content: bytes = files.cat_file(path)
            return content

    def missing(self, name: str) -> RequestError:
        return RequestError(f"can't read {shown(name)}: No such file or directory")


def is_file(at: str, about: Mapping[str, Any]) -> bool:
    """Stores of objects have files as well that stand for a folder."""
    return about["type"] == "file" and not at.endswith("/")


def remote(address: str, about: Mapping[str, Any]) -> Input:
    """A file, from what its store says of it."""
    return Input(address, address, int(about["size"] or 0), stamp=tag(about))


def tag(about: Mapping[str, Any]) -> str:
    """By which a store tells one content from another; "" where it says nothing of the kind."""
    lfs, settings = about.get("lfs"), about.get("content_settings")
    known = {**about, **(lfs if isinstance(lfs, dict) else {}), **(settings if isinstance(settings, dict) else {})}
    return next((f"{name} {known[name]}" for name in TAGS if known.get(name)), "")
