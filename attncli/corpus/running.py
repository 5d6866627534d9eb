"""Go through a corpus: from the names of files to the sums of everything in them.

The driver gives an engine the shards that are not done, and adds up their sums in the plan's order: another order would
give another last bit. So a shard that is done early waits for the shards before it, in the folder or in memory.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line
from attncli.corpus.engines import Counted, Engine, Failed, SoFar, here, processes
from attncli.corpus.files import TEXTS, BadFile, Input, Kinds, digested
from attncli.corpus.finding import find_inputs
from attncli.corpus.folder import Folder, State, bad_plan, folder_at
from attncli.corpus.shards import CorpusSize, Plan, Shard, Total, Work
from attncli.corpus.texts import Choosing, end_of

HERE, RAY = "here", "ray"
PROCESSES_A_CORE = 16  # at most: each takes memory, and from two on none makes it faster

# --- what to read, and where to count -------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The files to read, by the names of files, folders and addresses, how texts stand in them, and their kinds."""

    names: Sequence[str]
    reading: Choosing
    kinds: Kinds = TEXTS

    @cached_property
    def inputs(self) -> list[Input]:
        """The files, found once. Raises RequestError as `find_inputs` and the reading's `check`."""
        found = find_inputs(self.names, self.kinds, self.reading.skip_bad)
        self.reading.check(found)
        return found


@dataclass(frozen=True)
class Where:
    """The engine that counts shards, and the folder of their sums.

    on: "here", "ray" (a Ray that runs, or else a new one on this machine), or the address of a Ray (`ray://...`).
    workers: how many count side by side; by default this process alone, on all its cores, and on Ray as many as there
    is room for. gpus: GPUs of each worker on Ray, which may be a fraction. state: a folder for sums, or its address;
    None keeps none. shard_bytes: the size of a shard; None is SHARD_BYTES, or the size that the folder was begun with.

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
        if self.workers is not None and not self.on_ray and self.workers > PROCESSES_A_CORE * _cores():
            most = PROCESSES_A_CORE * _cores()
            raise RequestError(f"--workers {self.workers}: this machine can run at most {most} workers")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise RequestError(f"--worker-gpus {self.gpus:g}: more than one GPU has to be a whole number of them")

    @property
    def on_ray(self) -> bool:
        return self.on == RAY or self.on.startswith(f"{RAY}://")

    @property
    def address(self) -> str | None:
        """The address of a Ray cluster, if one is named."""
        return None if self.on in (HERE, RAY) else self.on

    @property
    def device(self) -> str | None:
        """The device of workers on Ray; None if the model decides."""
        return ("cuda" if self.gpus else "cpu") if self.on_ray else None

    @property
    def folder(self) -> Folder | None:
        return None if self.state is None else folder_at(self.state)

    def inside(self, name: str) -> "Where":
        """Return the same place with sums in a folder of that name inside the folder."""
        return self if self.state is None else replace(self, state=f"{self.state.rstrip('/')}/{name}")

    def engine(self) -> Engine:
        """Return the engine. Raises RequestError if it needs a library that is not installed."""
        if self.on_ray:
            from attncli.corpus.on_ray import on_ray

            return on_ray(self.address, self.workers, self.gpus)
        if self.workers is not None:
            return processes(self.workers, _cores())
        return here()

    def check_cluster(self) -> None:
        """Raises RequestError if nothing answers at the address of a cluster."""
        if self.on_ray:
            from attncli.corpus.on_ray import check_cluster

            check_cluster(self.address)

    def check(self, inputs: Sequence[Input]) -> None:
        """Raises RequestError for a stream that must be read twice or elsewhere, and as `check_cluster`."""
        apart = self.on_ray or self.workers is not None
        if (apart or self.state is not None) and any(one.is_stream for one in inputs):
            option = "--state" if self.state is not None else "--on" if self.on_ray else "--workers"
            raise RequestError(f"{option} is for files, and stdin can be read only once, here: save it to a file first")
        self.check_cluster()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- going through it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class HowFar:
    """The progress: what has been counted, the part of it by an earlier run, and how many of all shards are done."""

    seen: CorpusSize
    before: CorpusSize
    shards: int
    of: int


Show = Callable[[HowFar], None]


def silent(now: HowFar) -> None:
    """Shows nothing."""


@dataclass
class Result(Generic[Total]):
    """The sums of a corpus. partial: the run was interrupted. retried: how often a shard was counted again. skipped:
    the shards that could not be counted, and why.
    """

    total: Total
    partial: bool = False
    retried: int = 0
    skipped: list[str] = field(default_factory=list)


def go_through(work: Work[Total], corpus: Corpus, where: Where = Where(), show: Show = silent) -> Result[Total]:
    """Return the sums over a corpus. A folder of this machine is locked meanwhile.

    Raises RequestError for inputs that can't be read, for a folder that was begun with another request, and as `run`.
    """
    inputs = corpus.inputs
    where.check(inputs)
    if where.device is not None:
        work = work.on(where.device)
    folder = where.folder
    with nullcontext() if folder is None else folder.locked():
        state = None if folder is None else State(folder)
        if state is not None:
            state.check(work.options)
        fixed = None if state is None else state.fixed
        size = _shard_bytes(where, fixed, work.shard_bytes)
        if state is not None:
            inputs = digested(inputs, state.stamps)
        plan = Plan(inputs, size, end_of(corpus.reading, inputs))
        try:
            work = work.at(fixed, plan.bytes)
        except (KeyError, ValueError) as error:
            raise bad_plan(where.state, error) from error
        if state is not None:
            state.agree(work.options, {**work.fixed, "shard_bytes": size}, inputs)
        return run(work, plan, where.engine(), folder, corpus.reading.skip_bad, show)


def notify_partial(figures: str, where: Where) -> None:
    """Say in a Notice that a run was interrupted. figures: what it left, as in "figures are PARTIAL, of 3 texts"."""
    more = "" if where.state is None else "; the same command goes on from here"
    warnings.warn(f"interrupted: these {figures}{more}", Notice, stacklevel=3)


def _shard_bytes(where: Where, fixed: dict[str, int] | None, usual: int) -> int:
    """Return the size of a shard. Raises RequestError if the folder was begun with another size."""
    if fixed is None:
        return where.shard_bytes or usual
    if where.shard_bytes not in (None, fixed["shard_bytes"]):
        raise RequestError(
            f"{where.state} was begun with shards of {fixed['shard_bytes']:,} bytes: leave --shard-mb out, or name "
            "another folder"
        )
    return fixed["shard_bytes"]


def run(
    work: Work[Total],
    plan: Plan,
    engine: Engine,
    folder: Folder | None = None,
    skip_bad: bool = False,
    show: Show = silent,
) -> Result[Total]:
    """Return the sums over all shards of a plan.

    folder: keeps the sums of each shard; sums that it has already, undamaged, are not counted again. skip_bad: leave
    out shards that can't be counted, with a Notice.

    A KeyboardInterrupt ends the run early, with a `partial` result.

    Raises RequestError for a shard that can't be counted, and as the work, the engine and the folder.
    """
    result = Result(work.nothing())
    merging = _Merging(work, plan, folder, result)
    so_far: Total | None = None
    reported: set[str] = set()
    of = 0 if show is silent else plan.count
    try:
        for event in engine(work, merging.missing(), folder):
            if isinstance(event, SoFar):
                so_far = event.total
                show(merging.how_far(of, work.corpus_size(event.total)))
                continue
            so_far = None
            if isinstance(event, Failed):
                merging.skip(event, skip_bad)
            else:
                for notice in event.notices:
                    if notice not in reported:
                        warnings.warn(notice, Notice, stacklevel=2)
                        reported.add(notice)
                merging.take(event)
            show(merging.how_far(of))
        show(merging.how_far(of))  # with the last sums from the folder
    except KeyboardInterrupt:
        result.partial = True
        merging.settle_rest()
        if so_far is not None:
            result.total = result.total + so_far
    if result.retried:
        again = "once" if result.retried == 1 else f"{result.retried} times"
        warnings.warn(f"a shard was counted again {again}, after its worker failed", Notice, stacklevel=2)
    return result


class _Merging(Generic[Total]):
    """Adds up the sums of shards in the plan's order.

    waiting: sums of shards that are done before their turn: their content, the name of their file, or None for a
    skipped shard.
    """

    def __init__(self, work: Work[Total], plan: Plan, folder: Folder | None, result: Result[Total]) -> None:
        self.work, self.plan, self.folder, self.result = work, plan, folder, result
        self.request = work.digest
        self.next = 0
        self.waiting: dict[int, tuple[str, bytes | None] | None] = {}  # names and sums; None: in the folder
        self.before = self.now = CorpusSize(0, 0)
        self.shards = 0

    def missing(self) -> Iterator[Shard]:
        """Yield the shards that the folder does not have, and take over the others."""
        there = set() if self.folder is None else self.folder.names()
        for shard in self.plan.shards():
            name = shard.name(self.request)
            if name not in there or (total := self._read_sums(name, shard)) is None:
                yield shard
            else:
                self.before = self.before.plus(self.work.corpus_size(total))
                self.shards += 1
                if shard.number == self.next:
                    self._add(total)
                else:
                    self.waiting[shard.number] = (name, None)

    def _read_sums(self, name: str, shard: Shard) -> Total | None:
        """Return the sums of a shard in the folder; None, with a Notice, if they are damaged."""
        assert self.folder is not None
        content = self.folder.read(name)
        if content is None:
            return None
        try:
            return self.work.unsealed(content, name)
        except ValueError as error:
            where = f"{self.folder.name}/{name}"
            warnings.warn(
                f"{where} is damaged ({first_line(error)}): {shard.where} is counted again", Notice, stacklevel=2
            )
            return None

    def how_far(self, of: int, counting: CorpusSize = CorpusSize(0, 0)) -> HowFar:
        """Return the progress, given the number of all shards; counting: the part of a shard that is counted so far."""
        return HowFar(self.before.plus(self.now).plus(counting), self.before, self.shards, of)

    def take(self, done: Counted) -> None:
        self.result.retried += done.tries - 1
        self.now = self.now.plus(done.seen)
        name = done.shard.name(self.request)
        if self.folder is not None and done.content is not None:  # from a worker without access to the folder
            self.folder.write(name, done.content)
            done = done._replace(content=None)
        self._put(done.shard, (name, done.content))

    def skip(self, failed: Failed, skip_bad: bool) -> None:
        """Leave out a shard. Raises RequestError unless bad shards are skipped."""
        self.result.retried += failed.tries - 1
        why = first_line(failed.error)
        if not isinstance(failed.error, BadFile):
            why = f"{failed.shard.where}: failed {failed.tries} times ({why})"
        if not skip_bad:
            raise RequestError(f"{why}: --skip-bad goes on without it") from failed.error
        self.result.skipped.append(why)
        warnings.warn(f"skipped {why}", Notice, stacklevel=2)
        self._put(failed.shard, None)

    def _put(self, shard: Shard, sums: tuple[str, bytes | None] | None) -> None:
        self.waiting[shard.number] = sums
        self.shards += 1
        while self.next in self.waiting:
            self._settle(self.next)

    def settle_rest(self) -> None:
        """Add the shards that are done, although earlier ones are missing."""
        for number in sorted(self.waiting):
            self._settle(number)

    def _settle(self, number: int) -> None:
        sums = self.waiting.pop(number)
        if sums is None:  # it was skipped
            self._add(self.work.nothing())
            return
        name, content = sums
        if content is None:
            assert self.folder is not None
            content = self.folder.read(name)
            if content is None:
                raise RequestError(f"{self.folder.name}/{name} is gone: run the same again")
        try:
            self._add(self.work.unsealed(content, name))
        except ValueError as error:
            raise RequestError(
                f"sums of a shard were damaged meanwhile ({first_line(error)}): run the same again"
            ) from error

    def _add(self, total: Total) -> None:
        self.result.total = self.result.total + total
        self.next += 1
