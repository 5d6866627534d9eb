"""The cache: a folder of results that can be recomputed, such as digests of checkpoints, usual attention weights and
converted models. ATTNCLI_CACHE sets its path. The default is `attncli` in XDG_CACHE_HOME or in ~/.cache. The program
works without it: if the folder is missing, read-only or garbled, no message appears. Code that reads its files checks
their content (`attncli.base.untrusted`).
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from attncli.base.files import current_umask, replace
from attncli.base.untrusted import read_json

DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
MOST_FILES = 100  # in one folder; older ones are removed
MOST_ENTRIES = 100  # in one table; older ones are removed
LONGEST_TABLE = 2**20  # bytes


def cache_directory() -> Path:
    """Return the folder, which need not exist."""
    named, base = os.environ.get("ATTNCLI_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    try:
        return (Path(base) if base else Path.home() / ".cache") / "attncli"
    except RuntimeError:  # the user has no home directory, so nothing can be cached
        return Path(os.devnull)


def keep(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file of the cache, atomically.

    Anything of that name is replaced, except a directory. A link is replaced by the file, and its target is unchanged.
    """
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, write, 0o666 & ~current_umask())


def keep_newest(path: Path, write: Callable[[Path], object]) -> None:
    """Keep a file whose name is a SHA-256, as `keep` does. Then remove the oldest such files beyond MOST_FILES."""
    keep(path, write)
    with suppress(OSError):
        files = [file for file in path.parent.iterdir() if DIGEST.fullmatch(file.stem)]
        for file in sorted(files, key=lambda file: file.lstat().st_mtime_ns)[:-MOST_FILES]:
            file.unlink()


def read_table(path: Path) -> dict[str, str]:
    """Return a table of texts that `keep_table` has written; empty if it is missing or garbled."""
    try:
        table = read_json(path, LONGEST_TABLE)
    except (OSError, ValueError):
        return {}
    good = isinstance(table, dict) and all(isinstance(value, str) for value in table.values())
    return table if good else {}


def keep_table(path: Path, table: Mapping[str, str]) -> None:
    """Keep the last MOST_ENTRIES entries of a table."""
    recent = dict(list(table.items())[-MOST_ENTRIES:])
    keep(path, lambda temporary: temporary.write_text(json.dumps(recent)))
