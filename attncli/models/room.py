"""Whether the records that are asked for fit into memory: known from their shapes, before anything is computed."""

import os
from pathlib import Path

from attncli.base.errors import RequestError

MEMORY = Path("/proc/meminfo")
CGROUP, OLD_CGROUP = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
SMALL = 2**28  # bytes that nobody asks about
RECORDED = 4  # bytes of a weight in a record


def record_bytes(tokens: int, layers: int, heads: int, computed: int = RECORDED) -> int:
    """What a record of so many maps takes: weights `[layer, head, query, key]` and masks `[layer, query, key]`.

    computed: bytes of a weight as it is computed; where these are not a record's, it is there twice.
    """
    weight = RECORDED if computed == RECORDED else RECORDED + computed
    return tokens**2 * layers * (heads * weight + 1)


def vector_bytes(tokens: int, heads: int, head_dim: int, terms: int) -> int:
    """What queries and keys of so many heads take, and so many terms of each of their scores, `[query, key]`."""
    return heads * RECORDED * (2 * tokens * head_dim + terms * tokens**2)


def check_room(
    lengths: list[int], layers: int, heads: int, computed: int = RECORDED, vectors: int = 0, copies: float = 0
) -> None:
    """Raises RequestError where records of texts of so many tokens, or units, all there at once, do not fit into
    memory.

    vectors: the bytes of their queries and keys; copies: how many of the maps whoever asks will make besides.
    """
    maps = sum(record_bytes(length, layers, heads, computed) for length in lengths)
    needed = maps + int(copies * sum(record_bytes(length, layers, heads) for length in lengths)) + vectors
    there = available() if needed > SMALL else None
    if there is None or needed <= there:
        return
    longest = max(lengths)
    drawn = " to draw" if copies else ""
    many = (
        f"{layers * heads} maps of {longest} tokens take" if layers * heads > 1 else f"1 map of {longest} tokens takes"
    )
    what = many if len(lengths) == 1 else f"maps of {len(lengths)} texts take"
    ways = [] if len(lengths) == 1 else ["fewer texts at a time"]
    if vectors > maps:
        what += ", with q and k,"
        ways.append("no q and k (--vectors, --terms)")
    if layers * heads > 1:
        one = giga(record_bytes(longest, 1, 1, computed))
        ways.append(f"some with -l and -H (-l 0 -H 0 takes {one} GB{'' if len(lengths) == 1 else ' a text'})")
    ways.append("stats, which keeps no maps" if ways else "a shorter text")
    raise RequestError(f"{what} {giga(needed)} GB{drawn} and there are {giga(there)}: ask for {', or '.join(ways)}")


def giga(size: int) -> str:
    """Bytes in gigabytes, with as many digits as matter: 71, 3.4, 0.02."""
    return f"{size / 1e9:.0f}" if size >= 9.5e9 else f"{size / 1e9:.{2 if size >= 1e9 else 1}g}"


def available() -> int | None:
    """Bytes of memory that can be had without swapping: the system's, or what is left of a container's limit if that is
    less. None where the system does not tell.
    """
    known = [size for size in (system_room(), *map(cgroup_room, (CGROUP, OLD_CGROUP))) if size is not None]
    return min(known, default=None)


def system_room() -> int | None:
    if MEMORY.is_file():
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def cgroup_room(folder: Path) -> int | None:
    """What a cgroup leaves, version 2 or 1: its limit less what is used and is no cache of files."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            most, now = (int((folder / name).read_text()) for name in (limit, used))
            fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # there is none, or its limit is "max"
            continue
        cached = int(fields.get("inactive_file", fields.get("total_inactive_file", 0)))
        return max(0, most - now + cached)
    return None
