"""Go through a corpus: from its texts to the sums of everything in them.

This process reads the texts, shard by shard. An engine counts shards: this process, several of this machine
(`concurrent.futures`), or Ray. Their sums are added in the order of the shards: another order would give another last
bit.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.corpus.engines import Engine, here, on_ray, processes
from attncli.corpus.shards import SHARD_BYTES, CorpusSize, Folder, Shard, Total, Work, shards

HERE, RAY = "here", "ray"
PROCESSES_A_CORE = 16  # at most: each takes memory, and from two on none makes it faster


@dataclass(frozen=True)
class Workplace:
    """The engine that counts shards, and the folder of their sums.

    on: "here", "ray" (a Ray that runs, or else a new one on this machine), or the address of a Ray (`ray://...`).
    workers: how many count side by side; by default this process alone, on all its cores, and on Ray as many as there
    is room for. gpus: GPUs of each worker on Ray, which may be a fraction. state: a folder for sums, or its address;
    None keeps none. shard_bytes: the size of a shard; None is SHARD_BYTES.

    Raises RequestError for an unknown engine, and for options that have no effect on it.
    """

    on: str = HERE
    workers: int | None = None
    gpus: float = 0.0
    state: str | None = None
    shard_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.on_ray and self.on != HERE:
            raise RequestError(f"--on {self.on}: it is one of {HERE}, {RAY}, {RAY}://ADDRESS")
        if self.gpus and not self.on_ray:
            raise RequestError("--worker-gpus is for --on ray: here a GPU is taken where there is one")
        if self.workers is not None and not self.on_ray and self.workers > (most := PROCESSES_A_CORE * _cores()):
            raise RequestError(f"--workers {self.workers}: this machine can run at most {most} workers")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise RequestError(f"--worker-gpus {self.gpus:g}: more than one GPU has to be a whole number of them")

    @property
    def on_ray(self) -> bool:
        return self.on == RAY or self.on.startswith(f"{RAY}://")

    def engine(self) -> Engine:
        """Return the engine. Raises RequestError if it needs a library that is not installed."""
        if self.on_ray:
            return on_ray(None if self.on == RAY else self.on, self.workers, self.gpus)
        return here if self.workers is None else processes(self.workers, max(1, _cores() // self.workers))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- going through it -----------------------------------------------------------------------------------


class HowFar(NamedTuple):
    """The progress. seen: what has been counted; before: the part of it by an earlier run; shards: how many of them."""

    seen: CorpusSize
    before: CorpusSize
    shards: int


Show = Callable[[HowFar], None]


def silent(now: HowFar) -> None:
    """Shows nothing."""


def go_through(
    work: Work[Total], texts: Iterable[Any], where: Workplace = Workplace(), show: Show = silent
) -> tuple[Total, bool]:
    """Return the sums over texts, and whether a KeyboardInterrupt ended the run early.

    Sums that the folder has already are not made again.

    Raises RequestError for texts that can't be read, for a shard that can't be counted, and as the work and the engine.
    """
    folder = None if where.state is None else Folder(where.state)
    cut = shards(texts, where.shard_bytes or SHARD_BYTES)
    if (first := next(cut, None)) is None:
        return work.nothing(), False
    if where.on_ray:
        work = work.on("cuda" if where.gpus else "cpu")
    work = work.starting_with(first)
    request = work.digest
    total, added = work.nothing(), 0
    waiting: dict[int, Total] = {}  # sums that are made before those of earlier shards
    under_way: dict[int, str] = {}  # the names of shards that an engine counts
    so_far: list[Total] = []  # of the shard that this process counts
    before = now = CorpusSize(0, 0)

    def add(number: int, sums: Total) -> None:
        nonlocal total, added
        waiting[number] = sums
        while added in waiting:
            total, added = total + waiting.pop(added), added + 1

    def missing() -> Iterator[Shard]:
        """Yield the shards whose sums the folder does not have, and take over the others."""
        nonlocal before
        for shard in chain([first], cut):
            name = "" if folder is None else shard.name(request)
            kept = None if folder is None else folder.read(name, work)
            if kept is None:
                under_way[shard.number] = name
                yield shard
            else:
                before = before.plus(work.corpus_size(kept))
                add(shard.number, kept)

    try:
        for number, sums, done in where.engine()(work, missing()):
            size = work.corpus_size(sums)
            so_far = [] if done else [sums]
            if done:
                name = under_way.pop(number)
                if folder is not None:
                    folder.write(name, work, sums)
                add(number, sums)
                now, size = now.plus(size), CorpusSize(0, 0)
            show(HowFar(before.plus(now).plus(size), before, added + len(waiting)))
        show(HowFar(before.plus(now), before, added))  # with the last sums from the folder
    except KeyboardInterrupt:
        return sum([*(waiting[number] for number in sorted(waiting)), *so_far], total), True
    return total, False


def notify_partial(figures: str, where: Workplace) -> None:
    """Say in a Notice that a run was interrupted. figures: what it left, as in "figures are PARTIAL, of 3 texts"."""
    more = "" if where.state is None else "; the same command goes on from here"
    warnings.warn(f"interrupted: these {figures}{more}", Notice, stacklevel=3)
