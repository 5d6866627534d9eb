"""Shards counted by several processes of this machine.

Each worker is a pool of one process (`concurrent.futures`), so that of one that dies it is known which shard it had:
another one takes its place, and the shard.
"""

import atexit
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, suppress
from itertools import islice
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.files import making
from attncli.corpus.shards.engine import Counted, Engine, Event, count_quietly, failed
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.plan import Shard
from attncli.corpus.shards.work import Counts, Work

STARTS = 10  # tries to start a worker
LONGEST = 80  # bytes of a folder with sockets: every system allows some 20 more for the name of one
SETTLED = 0.5  # seconds after which a process that was killed is gone


class Begun:
    """What a worker has: its work, and what counts, once it has begun."""

    work: Work[Any]
    cores: int
    counts: Counts[Any] | None = None


class Doing(NamedTuple):
    """What a worker is at."""

    pool: ProcessPoolExecutor
    shard: Shard
    tries: int


def processes(workers: int, cores: int) -> Engine:
    """The engine of so many processes, which share the cores."""

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        crew = Crew(work.away(), max(1, cores // workers), folder)
        try:
            for shard in islice(shards, workers):
                crew.give(crew.pool(), shard)
            while crew.doing:
                for future in wait(crew.doing, return_when=FIRST_COMPLETED).done:
                    pool, event = crew.outcome(future)
                    if event is None:
                        continue
                    yield event
                    if (following := next(shards, None)) is None:
                        end(pool)
                    else:
                        crew.give(pool, following)
        finally:
            crew.stop()

    return engine


class Crew:
    """Some workers, with so many cores each."""

    def __init__(self, work: Work[Any], cores: int, folder: Folder | None) -> None:
        self.work, self.cores, self.folder = work, cores, folder
        self.doing: dict[Future[Counted], Doing] = {}

    def pool(self) -> ProcessPoolExecutor:
        """A worker."""
        return ProcessPoolExecutor(1, started(type(self.work).__module__), begin, (self.work, self.cores))

    def give(self, pool: ProcessPoolExecutor, shard: Shard, tries: int = 1) -> None:
        """A shard to a worker; to another one where it, or what starts processes, has died meanwhile."""
        for left in reversed(range(STARTS)):
            try:
                future = pool.submit(count_there, shard, self.folder)
            except (BrokenExecutor, EOFError, OSError):
                if not left:
                    raise
                time.sleep(SETTLED)
                pool = self.pool()
            else:
                self.doing[future] = Doing(pool, shard, tries)
                return

    def outcome(self, future: "Future[Counted]") -> tuple[ProcessPoolExecutor, Event | None]:
        """Who is free for another shard, and what has become of this one; None where it is tried again.

        Raises RequestError for what is wrong with the request.
        """
        pool, shard, tries = self.doing.pop(future)
        try:
            return pool, future.result()._replace(tries=tries)
        except Exception as error:  # noqa: BLE001  (`failed` says which may not be again)
            if isinstance(error, BrokenExecutor):
                pool.shutdown(wait=False)
                pool = self.pool()
            try:
                given_up = failed(shard, error, tries)
            except RequestError:
                end(pool)  # it has nothing to do, and is waited for at the end of this process
                raise
            if given_up is None:
                self.give(pool, shard, tries + 1)
            return pool, given_up

    def stop(self) -> None:
        """At once: what is under way is lost."""
        for pool, _, _ in self.doing.values():
            end(pool)


def end(pool: ProcessPoolExecutor) -> None:
    """At once: one that is asked to end may take for ever, and this process waits for it."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def started(module: str) -> BaseContext:
    """How processes are started: from one that has imported what they need, where the system can (not on Windows)."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    keep_sockets()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    return context


def keep_sockets() -> None:
    """Keep multiprocessing's sockets in a folder that the next run removes, should this process be killed.

    The folder lasts as long as this process, and so does what starts the workers. It has a short path: a socket's is
    limited. Without such a folder, multiprocessing makes one of its own.
    """
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    for place in (tempfile.gettempdir(), "/tmp"):
        if config.get("tempdir") is not None:
            return
        with ExitStack() as stack, suppress(OSError):
            folder = str(stack.enter_context(making(Path(place))))
            if len(os.fsencode(folder)) <= LONGEST:
                config["tempdir"] = folder
                atexit.register(leave_sockets, os.getpid(), stack.pop_all())


def leave_sockets(owner: int, stack: ExitStack) -> None:
    """Remove the folder at the end of the process that made it, and not of a copy of that process."""
    if os.getpid() == owner:
        stack.close()


def begin(work: Work[Any], cores: int) -> None:
    """In a worker: it ends when the process ends that has started it, and leaves Ctrl-C to that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Begun.work, Begun.cores = work, cores
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def count_there(shard: Shard, folder: Folder | None) -> Counted:
    """In a worker; the model is opened for the first shard, so that what is wrong with it is said as always."""
    if Begun.counts is None:
        Begun.counts = Begun.work.begin(Begun.cores)
    return count_quietly(Begun.work, Begun.counts, shard, folder)
