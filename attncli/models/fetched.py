"""A model's files by address (`attncli.base.addresses`) -> a directory of this machine.

Copies are kept by their address, and by the names, sizes and tags of the files there: a model is fetched once, and
again when it has changed.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.addresses import filesystem, told
from attncli.base.errors import RequestError
from attncli.base.making import making
from attncli.base.printable import printable, quoted
from attncli.models.checkpoint_files import (
    CONFIG_FILE,
    MODULE_FOLDER,
    MODULES_FILE,
    shard_names,
    wanted_files,
    weight_files,
)

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from tqdm import tqdm

SHARD = re.compile(r"[^/\\]+\.(safetensors|bin)")
# By what stores tell one content of a file from another: those that are there, of these.
TAGS = (
    *("ETag", "etag", "md5Hash", "generation", "blob_id", "sha", "hex", "CRC"),
    *("LastModified", "last_modified", "modified", "modify", "mtime", "created", "modificationTime", "last_write_time"),
)


class Listed(NamedTuple):
    """A file as its store lists it; size: bytes, where that is said."""

    size: int | None
    tags: dict[str, str]


class Folder(NamedTuple):
    """Where a model's files are.

    files: those that a model's can be, by their names in it; wanted: those of them that it has for sure, the last its
    weights or the index of their shards.
    """

    address: str
    store: "AbstractFileSystem"
    path: str
    files: dict[str, Listed]
    wanted: list[str]

    @property
    def digest(self) -> str:
        return short_digest(json.dumps(self.files, sort_keys=True))


def fetch(address: str, cache: Path) -> Path:
    """The directory in `cache` that has what this address has; it appears there whole or not at all.

    Raises RequestError for an address that can't be reached, has no model, or does not say when a file has changed.
    """
    with told("can't fetch", address):
        folder = find(address)
        path = kept_in(cache, address) / folder.digest
        if not is_copy(path, folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            with making(path.parent) as work:
                made = work / path.name
                copy(folder, made)
                put(made, path, folder)
        with suppress(OSError):  # a place that may only be read
            os.utime(path)
        return path


def newest(address: str, cache: Path) -> Path | None:
    """The directory that this address was last fetched to: nobody is asked whether it has changed."""
    try:
        found = [path for path in kept_in(cache, address).iterdir() if not path.name.startswith(".")]
        return max(found, key=lambda path: path.stat().st_mtime, default=None)
    except OSError:
        return None


def kept_in(cache: Path, address: str) -> Path:
    return cache / short_digest(address.rstrip("/"))


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


# --- what is there --------------------------------------------------------------------------------------


def find(address: str) -> Folder:
    """Raises RequestError where there is no model, and whatever the store raises."""
    store, path = filesystem(address)
    path = path.rstrip("/")
    store.invalidate_cache(path)
    try:
        store.info(f"{path}/{CONFIG_FILE}")  # a folder that has none may have a million of other things
    except FileNotFoundError as error:
        raise RequestError(f"{printable(address)} has no {CONFIG_FILE}: name the folder that has a model's") from error
    entries = list_folder(store, path)
    if MODULES_FILE in entries:
        for name in filter(MODULE_FOLDER.fullmatch, list(entries)):
            inside = list_folder(store, f"{path}/{name}")
            entries.update({f"{name}/{file}": entry for file, entry in inside.items()})
    there = {name for name, entry in entries.items() if entry["type"] == "file"}
    wanted = wanted_files(there, printable(address))
    shards = filter(SHARD.fullmatch, there) if wanted[-1].endswith(".json") else ()
    files = {name: listed(store, f"{path}/{name}", entries[name]) for name in sorted({*wanted, *shards})}
    return Folder(address.rstrip("/"), store, path, files, wanted)


def list_folder(store: "AbstractFileSystem", path: str) -> dict[str, dict[str, Any]]:
    """What the store says of all that is in a folder, by their names in it: of what it calls them only the last part is
    taken, so that nothing is from elsewhere.
    """
    return {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in store.ls(path, detail=True)}


def listed(store: "AbstractFileSystem", path: str, entry: dict[str, Any]) -> Listed:
    """Raises RequestError where nothing tells one content of a file from another."""
    said = entry if tags(entry) else store.info(path)
    if not tags(said):
        raise RequestError(
            f"nothing says whether {printable(path)} has changed: copy the model, and name the directory"
        )
    return Listed(said.get("size"), tags(said))


def tags(entry: dict[str, Any]) -> dict[str, str]:
    return {name: str(entry[name]) for name in TAGS if entry.get(name)}


# --- copies ---------------------------------------------------------------------------------------------


def copy(folder: Folder, target: Path) -> None:
    """Into `target`, which is not there yet. Raises RequestError where a file is missing or not all of it comes."""
    from huggingface_hub.utils import tqdm  # as for what comes from the Hub, and switched off by the same

    target.mkdir()
    index = folder.wanted[-1]
    with tqdm(unit="B", unit_scale=True, desc=quoted(folder.address), delay=1, disable=None) as bar:
        copy_files(folder, folder.wanted, target, bar)
        if index.endswith(".json"):
            try:
                names = shard_names(target / index)
            except RequestError as error:
                raise RequestError(str(error).replace(str(target), printable(folder.address))) from error
            copy_files(folder, names, target, bar)


def copy_files(folder: Folder, names: list[str], target: Path, bar: "tqdm[Any]") -> None:
    from fsspec.callbacks import Callback

    for name in names:
        if name not in folder.files:
            raise RequestError(f"{printable(folder.address)} lacks the shard {quoted(name)} that its index names")
    bar.total = (bar.total or 0) + sum(folder.files[name].size or 0 for name in names)
    for name in names:
        path, begun = target / name, bar.n
        path.parent.mkdir(exist_ok=True)
        advance = Callback(hooks={"bar": lambda size, value, begun=begun: bar.update(begun + value - bar.n)})
        with told("can't fetch", f"{folder.address}/{name}"):
            folder.store.get_file(f"{folder.path}/{name}", str(path), callback=advance)
        if not has_size(path, folder.files[name]):
            raise RequestError(f"of {printable(folder.address)}/{name} came {path.stat().st_size} bytes, not all")


def put(made: Path, path: Path, folder: Folder) -> None:
    """In its place, unless another process was faster."""
    if path.exists() and not is_copy(path, folder):  # somebody has removed what was in it
        path.rename(made.with_name("damaged"))
    try:
        made.rename(path)
    except OSError:
        if not is_copy(path, folder):
            raise


def is_copy(path: Path, folder: Folder) -> bool:
    """Whether all files are there, as long as their store says."""
    try:
        names = {*folder.wanted, *(weights.name for weights in weight_files(path))}
    except RequestError:
        return False
    return all(has_size(path / name, folder.files.get(name)) for name in names)


def has_size(path: Path, said: Listed | None) -> bool:
    return said is not None and path.is_file() and said.size in (None, path.stat().st_size)
