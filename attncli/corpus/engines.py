"""Engines: make sums of shards, in this process (`here`) or in several of this machine (`processes`).

A third engine is Ray (`attncli.corpus.on_ray`). All of them count a shard by `count`.

Each worker process is a pool of one (`concurrent.futures`). So it is known which shard a worker had that died: another
worker takes its place, and the shard.
"""

import atexit
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, suppress
from itertools import islice
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, Generic, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.files import making
from attncli.corpus.files import BadFile
from attncli.corpus.folder import Folder
from attncli.corpus.shards import CorpusSize, Counts, Shard, Total, Work

TRIES = 3  # of a shard, before it is given up


class SoFar(NamedTuple, Generic[Total]):
    """The sums so far of the shard that this process is counting."""

    total: Total


class Counted(NamedTuple):
    """A shard is done. content: its sums, sealed; None if they are in the folder. tries: how many it took."""

    shard: Shard
    content: bytes | None
    seen: CorpusSize
    notices: tuple[str, ...] = ()
    tries: int = 1


class Failed(NamedTuple):
    """A shard was given up, after so many tries."""

    shard: Shard
    error: BaseException
    tries: int = 1


Event = SoFar[Any] | Counted | Failed
# Takes shards, one when it has room for it, and yields what becomes of them, in any order.
Engine = Callable[[Work[Any], Iterator[Shard], Folder | None], Iterator[Event]]


def count(work: Work[Total], counts: Counts[Total], shard: Shard, folder: Folder | None) -> Iterator[Event]:
    """Count a shard step by step, then keep its sums in the folder, if there is one."""
    total = work.nothing()
    for total in counts(shard):
        yield SoFar(total)
    name = shard.name(work.digest)
    content = work.sealed(total, name)
    if folder is not None:
        folder.write(name, content)
    yield Counted(shard, content if folder is None else None, work.corpus_size(total))


def count_quietly(work: Work[Total], counts: Counts[Total], shard: Shard, folder: Folder | None) -> Counted:
    """Count a shard and collect its notices, because the user is at another process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        *_, done = count(work, counts, shard, folder)
    assert isinstance(done, Counted)
    return done._replace(notices=tuple(str(one.message) for one in caught if issubclass(one.category, Notice)))


def give_up(shard: Shard, error: BaseException, tries: int) -> Failed | None:
    """Decide on a shard whose last of so many tries ended with an error: None if it is tried again, as the cause may
    have passed. Raises the error if the request is at fault.
    """
    if isinstance(error, BadFile):
        return Failed(shard, error, tries)
    if isinstance(error, RequestError):
        raise error
    return Failed(shard, error, tries) if tries == TRIES else None


def here(cores: int | None = None) -> Engine:
    """Return the engine that counts in this process, one shard after the other, on all its cores."""

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        counts = None
        for shard in shards:
            counts = counts or work.begin(cores)
            for tried in range(1, TRIES + 1):
                try:
                    yield from count(work, counts, shard, folder)
                    break
                except Exception as error:  # noqa: BLE001  (`give_up` knows which may pass)
                    if (failed := give_up(shard, error, tried)) is not None:
                        yield failed
                        break

    return engine


# --- processes ------------------------------------------------------------------------------------------

STARTS = 10  # tries to start a worker
LONGEST = 80  # bytes of the path of a folder for sockets: every system allows some 20 more for a socket's name
SETTLED = 0.5  # seconds after which a process that was killed is gone


class _Doing(NamedTuple):
    """A worker, its shard, and which try it is."""

    pool: ProcessPoolExecutor
    shard: Shard
    tries: int


def processes(workers: int, cores: int) -> Engine:
    """Return the engine of several processes, which share the cores."""

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        crew = _Crew(work.without_model(), max(1, cores // workers), folder)
        try:
            for shard in islice(shards, workers):
                crew.give(crew.start(), shard)
            while crew.doing:
                for future in wait(crew.doing, return_when=FIRST_COMPLETED).done:
                    pool, event = crew.outcome(future)
                    if event is None:
                        continue
                    yield event
                    if (following := next(shards, None)) is None:
                        _end(pool)
                    else:
                        crew.give(pool, following)
        finally:
            crew.stop()

    return engine


class _Crew:
    """Workers with so many cores each."""

    def __init__(self, work: Work[Any], cores: int, folder: Folder | None) -> None:
        self.work, self.cores, self.folder = work, cores, folder
        self.doing: dict[Future[Counted], _Doing] = {}

    def start(self) -> ProcessPoolExecutor:
        needed = [type(self.work).__module__, *self.work.needs]
        return ProcessPoolExecutor(1, _starting(needed), _begin, (self.work, self.cores))

    def give(self, pool: ProcessPoolExecutor, shard: Shard, tries: int = 1) -> None:
        """Give a shard to a worker; to a new one if it, or the process that starts workers, has died meanwhile."""
        for left in reversed(range(STARTS)):
            try:
                future = pool.submit(_count_there, shard, self.folder)
            except (BrokenExecutor, EOFError, OSError):
                if not left:
                    raise
                time.sleep(SETTLED)
                pool = self.start()
            else:
                self.doing[future] = _Doing(pool, shard, tries)
                return

    def outcome(self, future: "Future[Counted]") -> tuple[ProcessPoolExecutor, Event | None]:
        """Return the worker that is free now, and what has become of its shard; None if it is tried again.

        Raises RequestError if the request is at fault.
        """
        pool, shard, tries = self.doing.pop(future)
        try:
            return pool, future.result()._replace(tries=tries)
        except Exception as error:  # noqa: BLE001  (`give_up` knows which may pass)
            if isinstance(error, BrokenExecutor):
                pool.shutdown(wait=False)
                pool = self.start()
            try:
                failed = give_up(shard, error, tries)
            except RequestError:
                _end(pool)  # it is idle, and the end of this process would wait for it
                raise
            if failed is None:
                self.give(pool, shard, tries + 1)
            return pool, failed

    def stop(self) -> None:
        """Kill all workers; their unfinished shards are lost."""
        for pool, _, _ in self.doing.values():
            _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """Kill a worker: one that is asked to end may take forever, and this process waits for it."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _starting(modules: list[str]) -> BaseContext:
    """Return the way to start processes: by forks of one that has imported these modules, if the system can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    _keep_sockets()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(modules)
    return context


def _keep_sockets() -> None:
    """Keep multiprocessing's sockets in a folder that the next run removes if this process is killed.

    The folder lasts as long as this process, and so does the process that starts workers. Its path is short, because
    the path of a socket is limited. Without such a folder, multiprocessing makes one of its own.
    """
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    for place in (tempfile.gettempdir(), "/tmp"):
        if config.get("tempdir") is not None:
            return
        with ExitStack() as stack, suppress(OSError):
            folder = str(stack.enter_context(making(Path(place))))
            if len(os.fsencode(folder)) <= LONGEST:
                config["tempdir"] = folder
                atexit.register(_leave_sockets, os.getpid(), stack.pop_all())


def _leave_sockets(owner: int, stack: ExitStack) -> None:
    """Remove the folder at the end of the process that made it, not at the end of its forks."""
    if os.getpid() == owner:
        stack.close()


class _Worker:
    """The state of a worker process: its work, and the counting function once it has begun."""

    work: Work[Any]
    cores: int
    counts: Counts[Any] | None = None


def _begin(work: Work[Any], cores: int) -> None:
    """In a worker: end with the process that started it, and leave Ctrl-C to that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.work, _Worker.cores = work, cores
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _count_there(shard: Shard, folder: Folder | None) -> Counted:
    """In a worker: count a shard. The model is opened for the first one, so that its errors are reported as usual."""
    if _Worker.counts is None:
        _Worker.counts = _Worker.work.begin(_Worker.cores)
    return count_quietly(_Worker.work, _Worker.counts, shard, folder)
