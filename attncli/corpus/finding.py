"""Find the files of a corpus from names, in a fixed order: files, folders, patterns, addresses.

fsspec finds files by address. Files of this machine are found without it: its import takes longer than the search.
"""

import glob
import os
import re
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from attncli.base.addresses import convert_errors, describe_file_error, filesystem, is_address, local_path
from attncli.base.errors import Notice, RequestError
from attncli.base.untrusted import parse_json, read_regular
from attncli.corpus.files import STDIN, TEXTS, BadFile, Input, Kinds, display_name, stamp_of, suffix
from attncli.corpus.tables import parts_of
from attncli.text.samples import where_to_find

TABLES = 8  # tables whose footers are read at the same time
# Files by which a folder that `datasets` wrote (save_to_disk) describes itself, and a folder of several such folders.
STATE, SPLITS = "state.json", "dataset_dict.json"
CHOSEN = ("_indices_files", "_indices_data_files")  # in the state, if the dataset has only some rows (before 2.0)

MAGIC = re.compile(r"[*?\[]")
# Names under which stores give a content tag. The first ones depend on the content alone.
TAGS = ("sha256", "md5Hash", "content_md5", "xet_hash", "blob_id", "ETag", "etag", "e_tag", "generation", "crc32c")


def find_inputs(names: Sequence[str], kinds: Kinds = TEXTS, skip_bad: bool = False) -> list[Input]:
    """Return the named files in the order of the names; a file that is named twice is there twice.

    A name is "-" (stdin), any file, a folder, a pattern (`*`, `?`, `[...]`, `**` for nested folders), or a folder that
    `datasets` wrote. All except stdin may be addresses. A folder stands for its files of these kinds that are not
    hidden, sorted by path. The name of an existing file is never a pattern.

    skip_bad: leave out tables that can't be read, with a Notice.

    Raises RequestError for a name that leads to nothing; BadFile for a table that can't be read.
    """
    found = [one for name in names for one in _named(name, kinds)]
    with ThreadPoolExecutor(TABLES) as pool:
        tables = pool.map(_with_parts, [one for one in found if kinds.is_table(one.name)])
        every = [next(tables) if kinds.is_table(one.name) else one for one in found]
    for one in every:
        if isinstance(one, BadFile):
            if not skip_bad:
                raise one
            warnings.warn(f"skipped: {one}", Notice, stacklevel=2)
    return [one for one in every if isinstance(one, Input)]


def _named(name: str, kinds: Kinds) -> list[Input]:
    """Return the files that one name stands for."""
    if name == STDIN:
        return [Input(STDIN, STDIN, 0)]
    store: Store = _ByAddress() if is_address(name) else Here()
    file = store.file(name)
    if file is not None:
        return [file]
    folder = store.folder(name)
    if folder is not None:
        return _files_inside(name, folder, store, kinds)
    if not MAGIC.search(name):
        raise RequestError(f"can't read {display_name(name)}: No such file or directory{where_to_find(name)}")
    files = store.matching(name)
    if not files:
        raise RequestError(f"no file matches {display_name(name)}")
    return files


def _files_inside(name: str, folder: "list[FolderFile]", store: "Store", kinds: Kinds) -> list[Input]:
    """Return the files of a folder that are read. A Notice names the others."""
    top = {found.parts[0]: found.file for found in folder if len(found.parts) == 1}
    if kinds.tables and SPLITS in top:
        splits = _read_json(top[SPLITS], store).get("splits")
        known = [f"{name.rstrip('/')}/{split}" for split in splits] if isinstance(splits, list) else []
        raise RequestError(f"{display_name(name)} has several datasets: name one: {display_name(', '.join(known))}")
    if kinds.tables and STATE in top:
        return _check_no_pipes(_data_files(top, store))
    files = [found.file for found in folder if kinds.has(found.parts[-1])]
    if not files:
        raise RequestError(
            f"{display_name(name)} has no {kinds.what} in it: {kinds.suffixes} (or compressed, .gz .zst)"
        )
    _check_no_pipes(files)
    others = sorted({suffix(found.parts[-1]) or found.parts[-1] for found in folder if not kinds.has(found.parts[-1])})
    if others:
        count = len(folder) - len(files)
        left_out = f"{count:,} file{'s' if count > 1 else ''} of other kinds ({display_name(', '.join(others))})"
        warnings.warn(f"{display_name(name)}: left out {left_out}", Notice, stacklevel=2)
    return files


def _check_no_pipes(files: list[Input]) -> list[Input]:
    """Return files of a folder. Raises RequestError for a pipe, which nobody has named."""
    for file in files:
        if file.is_stream:
            raise RequestError(
                f"{file.display_name} is a pipe, or a link that leads nowhere: name the files that are meant"
            )
    return files


def _data_files(top: dict[str, Input], store: "Store") -> list[Input]:
    state = top[STATE]
    about = _read_json(state, store)
    if any(about.get(name) for name in CHOSEN):
        raise BadFile(f"{state.display_name}: only some rows are the dataset's: save it anew, after flatten_indices()")
    try:
        return [top[entry["filename"]] for entry in about["_data_files"]]
    except (KeyError, TypeError) as error:
        raise BadFile(f"{state.display_name} is of no dataset, or names a file that is not there") from error


def _read_json(file: Input, store: "Store") -> dict[str, Any]:
    try:
        found = parse_json(store.content(file))
    except ValueError as error:
        raise BadFile(f"{file.display_name} is no JSON") from error
    return found if isinstance(found, dict) else {}


def _with_parts(one: Input) -> Input | BadFile:
    """Return a table with its parts, or the reason why it can't be read."""
    if one.is_stream:
        raise RequestError(f"{one.display_name}: a table is read from a file, not from a pipe")
    try:
        return replace(one, parts=parts_of(one))
    except BadFile as error:
        return error


# --- files on this machine, and by address --------------------------------------------------------------


class FolderFile(NamedTuple):
    """A file in a folder, and the parts of its path from there."""

    parts: tuple[str, ...]
    file: Input


class Here:
    """Files of this machine. Its methods raise RequestError for files that can't be looked at."""

    def file(self, name: str) -> Input | None:
        """Return a file; None for a folder, and if there is none."""
        path = local_path(name)
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                return None
            raise RequestError(f"can't read {display_name(name)}: {describe_file_error(error)}") from error
        return None if stat.S_ISDIR(found.st_mode) else _input_here(name, path, found)

    def folder(self, name: str) -> list[FolderFile] | None:
        """Return all files under a folder except hidden ones, sorted; None for anything else."""
        top = local_path(name)
        return sorted(self._under(top), key=attrgetter("parts")) if top.is_dir() else None

    def _under(self, top: Path) -> Iterator[FolderFile]:
        def refuse(error: OSError) -> None:
            raise RequestError(
                f"can't read {display_name(str(error.filename))}: {describe_file_error(error)}"
            ) from error

        for folder, folders, files in os.walk(top, onerror=refuse):
            folders[:] = [one for one in folders if not _is_hidden(one)]
            for file in files:
                path = Path(folder, file)
                if not _is_hidden(file):
                    one = self.file(str(path)) or Input(str(path), str(path.absolute()), 0)
                    yield FolderFile(path.relative_to(top).parts, one)

    def matching(self, pattern: str) -> list[Input]:
        """Return the files that match a pattern except hidden ones, sorted."""
        pattern = str(local_path(pattern))
        fixed = _parts_before_magic(pattern)
        every = glob.glob(pattern, recursive=True)  # noqa: PTH207  (that of a path has another `**` in each Python)
        names = sorted(every, key=lambda name: PurePosixPath(name).parts)
        if "**" in pattern:
            names = [name for name in names if not _through_link(Path(name), fixed)]
        return [file for name in names if (file := self.file(name)) is not None]

    def content(self, file: Input) -> bytes:
        """Read a small file."""
        try:
            return read_regular(Path(file.at))
        except OSError as error:
            raise RequestError(f"can't read {file.display_name}: {describe_file_error(error)}") from error


class _ByAddress:
    """Files that fsspec finds, by the methods of `Here`."""

    def file(self, name: str) -> Input | None:
        files, path = filesystem(name)
        with convert_errors("can't read", name):
            files.invalidate_cache(path)  # an earlier listing may be out of date
            try:
                about = files.info(path)
            except FileNotFoundError:
                return None
        return None if about["type"] == "directory" else _input_there(name, about)

    def folder(self, name: str) -> list[FolderFile] | None:
        files, path = filesystem(name)
        with convert_errors("can't read", name):
            if not files.isdir(path):
                return None
            top = files.info(path)["name"].rstrip("/")
            found = files.find(path, detail=True)
            every = (
                FolderFile(PurePosixPath(at).relative_to(top).parts, _input_there(files.unstrip_protocol(at), about))
                for at, about in found.items()
                if _is_file(at, about)
            )
            return sorted((one for one in every if not any(map(_is_hidden, one.parts))), key=attrgetter("parts"))

    def matching(self, pattern: str) -> list[Input]:
        files, path = filesystem(pattern)
        fixed = _parts_before_magic(path)
        with convert_errors("can't read", pattern):
            return [
                _input_there(files.unstrip_protocol(at), about)
                for at, about in sorted(files.glob(path, detail=True).items())
                if _is_file(at, about) and not any(map(_is_hidden, PurePosixPath(at).parts[fixed:]))
            ]

    def content(self, file: Input) -> bytes:
        files, path = filesystem(file.at)
        with convert_errors("can't read", file.name):
            return files.cat_file(path)


Store = Here | _ByAddress


def _parts_before_magic(pattern: str) -> int:
    """Return the number of parts of a pattern before the first with a wildcard."""
    return next((n for n, part in enumerate(PurePosixPath(pattern).parts) if MAGIC.search(part)), 0)


def _input_here(name: str, path: Path, found: os.stat_result) -> Input:
    """Return a file of this machine, or a stream."""
    # /dev/stdin is another file in each process
    at = Path(os.path.realpath(path) if path.is_relative_to("/dev") else path).absolute()
    if not stat.S_ISREG(found.st_mode) or not at.exists():
        return Input(name, str(path.absolute()), 0)
    return Input(name, str(at), found.st_size, stamp=stamp_of(found))


def _is_hidden(part: str) -> bool:
    return part.startswith(".") and part not in (".", "..")


def _through_link(path: Path, fixed: int) -> bool:
    """Return whether a folder on the way to a file, after `fixed` parts, is a link: links may form circles."""
    return any(Path(*path.parts[:count]).is_symlink() for count in range(fixed + 1, len(path.parts)))


def _is_file(at: str, about: Mapping[str, Any]) -> bool:
    """Return whether an entry of a store is a file: object stores also have files that stand for a folder."""
    return about["type"] == "file" and not at.endswith("/")


def _input_there(address: str, about: Mapping[str, Any]) -> Input:
    """Return a file from the description that its store gives."""
    return Input(address, address, int(about["size"] or 0), stamp=_content_tag(about))


def _content_tag(about: Mapping[str, Any]) -> str:
    """Return the tag by which a store tells one content from another; "" if it gives none."""
    lfs, settings = about.get("lfs"), about.get("content_settings")
    known = {**about, **(lfs if isinstance(lfs, dict) else {}), **(settings if isinstance(settings, dict) else {})}
    return next((f"{name} {known[name]}" for name in TAGS if known.get(name)), "")
