"""The SHA-256 of a model's weights, which identifies the model. It is computed once per file and cached."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from attncli.base.cache import DIGEST, cache_directory, keep_table, read_table
from attncli.base.errors import RequestError
from attncli.base.untrusted import open_regular
from attncli.models.checkpoint_files import Place


def weights_sha256(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of the weights: of the file, or of a list of "hash  name" lines if there are shards.

    The hash of an unchanged file comes from the cache. A file is recognized by its path, size, modification time and
    inode.
    """
    table = cache_directory() / "sha256.json"
    cached = {state: sha256 for state, sha256 in read_table(table).items() if DIGEST.fullmatch(sha256)}
    states = []  # before the files are read: they may change meanwhile
    for path in paths:
        about = path.stat()
        states.append(f"{path.resolve()}|{about.st_size}|{about.st_mtime_ns}|{about.st_dev}|{about.st_ino}")
    found = {state: cached.get(state) or file_sha256(path) for state, path in zip(states, paths, strict=True)}
    if not found.items() <= cached.items():
        keep_table(table, {**cached, **found})
    hashes = [found[state] for state in states]
    if len(hashes) == 1:
        return hashes[0]
    lines = sorted((path.name, sha256) for path, sha256 in zip(paths, hashes, strict=True))
    return hashlib.sha256("".join(f"{sha256}  {name}\n" for name, sha256 in lines).encode()).hexdigest()


def check_sha256(place: Place) -> str:
    """Return the SHA-256 of a model's weights (`weights_sha256`). Raises RequestError if another one was published."""
    found = weights_sha256(place.weights)
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
