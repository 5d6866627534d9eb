"""Process a corpus: read its texts and sum their statistics.

This process reads the texts, shard by shard. An engine counts shards: this process, several on this machine
(`concurrent.futures`), or Ray. Their sums are added in the order of the shards: another order would change the last
bit.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line
from attncli.corpus.engines import Counted, Workers, here, on_ray, processes
from attncli.corpus.shards import SHARD_BYTES, CorpusSize, Folder, Shard, Total, Work, shards

HERE, RAY = "here", "ray"


@dataclass(frozen=True)
class Workplace:
    """The engine that counts shards, and the folder of their sums.

    on: "here", "ray" (a running cluster, or else a new one on this machine), or a cluster's address (`ray://...`).
    workers: the number of parallel workers. Default: this process alone, on all its cores; on Ray, as many as fit.
    gpus: GPUs per worker on Ray; may be a fraction. state: the path or URL of a folder for sums; None keeps none.
    shard_bytes: the size of a shard. Raises RequestError for an unknown engine, and for options that have no effect on
    it.
    """

    on: str = HERE
    workers: int | None = None
    gpus: float = 0.0
    state: str | None = None
    shard_bytes: int = SHARD_BYTES

    def __post_init__(self) -> None:
        if not self.on_ray and self.on != HERE:
            raise RequestError(f"--on {self.on} is unknown: use one of {HERE}, {RAY}, {RAY}://ADDRESS")
        if self.gpus and not self.on_ray:
            raise RequestError("--worker-gpus needs --on ray: without it, attncli uses a GPU if there is one")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise RequestError(f"--worker-gpus {self.gpus:g} is not valid: above 1, give a whole number")

    @property
    def on_ray(self) -> bool:
        return self.on == RAY or self.on.startswith(f"{RAY}://")

    def engine(self, work: Work[Any], tell: Callable[[Any], None]) -> Workers:
        """Return the engine for this work. tell: called with the sums so far of a shard that this process counts."""
        if self.on_ray:
            return on_ray(work, None if self.on == RAY else self.on, self.workers, self.gpus)
        if self.workers is None:
            return here(work, tell)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return processes(work, self.workers, max(1, cores // self.workers))


class HowFar(NamedTuple):
    """The progress of a run.

    seen: all that has been counted. before: the part that an earlier run counted. shards: their number.
    """

    seen: CorpusSize
    before: CorpusSize
    shards: int


Show = Callable[[HowFar], None]


def silent(now: HowFar) -> None:
    """Show nothing."""


def process_corpus(
    work: Work[Total], texts: Iterable[Any], where: Workplace = Workplace(), show: Show = silent
) -> tuple[Total, bool]:
    """Return the sums over texts, and whether a KeyboardInterrupt ended the run early.

    Sums that are already in the folder are reused. Raises RequestError for texts that can't be read, for a shard that
    can't be counted, and as the work and the engine.
    """
    cut = shards(texts, where.shard_bytes)
    if (first := next(cut, None)) is None:
        return work.nothing(), False
    folder = None if where.state is None else Folder(where.state)
    if where.on_ray:
        work = work.on("cuda" if where.gpus else "cpu")
    work = work.starting_with(first)
    request = work.digest
    total, added = work.nothing(), 0
    waiting: dict[int, Total] = {}  # sums that are ready before those of earlier shards
    under_way: dict[Future[Counted], Shard] = {}
    so_far: list[Total] = []  # of the shard that this process counts
    notices: set[str] = set()
    before = now = CorpusSize(0, 0)

    def add(number: int, sums: Total) -> None:
        nonlocal total, added
        waiting[number] = sums
        while added in waiting:
            total, added = total + waiting.pop(added), added + 1

    def tell(sums: Total) -> None:
        so_far[:] = [sums]
        show(HowFar(now.plus(work.corpus_size(sums)), before, added))

    def collect() -> None:
        """Wait until the next shard is counted, then keep and add its sums."""
        nonlocal now
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            try:
                sums, given = future.result()
            except Exception as error:
                cause = getattr(error, "cause", None) or error  # the exception that Ray's error wraps
                if isinstance(cause, RequestError):
                    raise cause from None
                alone = not isinstance(error, BrokenExecutor)  # otherwise it is unknown which worker died
                failed = [under_way[future]] if alone else under_way.values()
                places = " or ".join(shard.where for shard in failed)
                raise RequestError(f"a worker failed while it counted {places}: {first_line(cause)}") from error
            for notice in given:
                if notice not in notices:
                    warnings.warn(notice, Notice, stacklevel=2)
            notices.update(given)
            shard = under_way.pop(future)
            if folder is not None:
                folder.write(shard.name(request), work, sums)
            so_far.clear()
            add(shard.number, sums)
            now = now.plus(work.corpus_size(sums))
            show(HowFar(now, before, added + len(waiting)))

    try:
        with where.engine(work, tell) as (room, submit):
            for shard in chain([first], cut):
                kept = None if folder is None else folder.read(shard.name(request), work)
                if kept is None:
                    under_way[submit(shard)] = shard
                else:
                    before, now = before.plus(work.corpus_size(kept)), now.plus(work.corpus_size(kept))
                    add(shard.number, kept)
                while len(under_way) >= room:
                    collect()
            while under_way:
                collect()
    except KeyboardInterrupt:
        return sum([*(waiting[number] for number in sorted(waiting)), *so_far], total), True
    show(HowFar(now, before, added))
    return total, False


def notify_partial(counted: str, where: Workplace) -> None:
    """Give a Notice that a run was interrupted. counted: what it counted, as in "3 texts"."""
    more = "" if where.state is None else "; the same command resumes from here"
    warnings.warn(f"interrupted: the numbers are PARTIAL, after {counted}{more}", Notice, stacklevel=3)
