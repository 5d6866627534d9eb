"""The SHA-256 of a model's weights, which identifies the model. It is computed once per file and cached."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from attncli.base.cache import DIGEST, cache_directory, keep_table, read_table
from attncli.base.errors import RequestError
from attncli.base.untrusted import open_regular
from attncli.models.checkpoint_files import Place


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
