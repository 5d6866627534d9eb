"""Engines: make the sums of shards, in this process (`here`) or in several of this machine (`processes`).

A third engine is Ray (`attncli.corpus.on_ray`).
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line
from attncli.corpus.shards import Counts, Shard, Work


class Event(NamedTuple):
    """The sums of a shard, or, unless it is `done`, those so far."""

    number: int
    total: Any
    done: bool = True


# Takes shards, one when it has room for it, and yields their sums, in any order.
Engine = Callable[[Work[Any], Iterator[Shard]], Iterator[Event]]


def here(work: Work[Any], missing: Iterator[Shard]) -> Iterator[Event]:
    """Count in this process, one shard after the other, on all its cores."""
    counts = None
    for shard in missing:
        counts = counts or work.begin(None)
        total = work.nothing()
        for total in counts(shard):
            yield Event(shard.number, total, False)
        yield Event(shard.number, total)


class Counted(NamedTuple):
    """The sums of a shard from another process, or the error of the request; and its notices."""

    total: Any
    notices: Sequence[str]
    error: RequestError | None = None

    def event(self, shard: Shard, said: set[str]) -> Event:
        """Return the sums, and give the notices that nobody has said yet. Raises the error."""
        for notice in self.notices:
            if notice not in said:
                warnings.warn(notice, Notice, stacklevel=2)
        said.update(self.notices)
        if self.error is not None:
            raise self.error
        return Event(shard.number, self.total)


_begun: dict[str, Counts[Any]] = {}  # by the digest of the work: the model is opened once in a process


def count_there(work: Work[Any], cores: int, shard: Shard) -> Counted:
    """Count a shard in a process that has no user."""
    total, refused = work.nothing(), None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        try:
            if work.digest not in _begun:
                _begun[work.digest] = work.begin(cores)
            for so_far in _begun[work.digest](shard):
                total = so_far
        except RequestError as error:
            refused = error
    return Counted(total, [str(one.message) for one in caught if issubclass(one.category, Notice)], refused)


def processes(workers: int, cores: int) -> Engine:
    """Return the engine of several processes with so many cores each. One that dies ends the run."""

    def engine(work: Work[Any], missing: Iterator[Shard]) -> Iterator[Event]:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
        under_way: dict[Future[Counted], Shard] = {}
        said: set[str] = set()
        away = work.without_model()

        def give(count: int) -> None:
            for shard in islice(missing, count):
                under_way[pool.submit(count_there, away, cores, shard)] = shard

        try:
            give(workers)
            while under_way:
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    try:
                        counted = future.result()
                    except BrokenExecutor as error:
                        which = " or ".join(shard.where for shard in under_way.values())
                        raise RequestError(f"a worker died while it counted {which}: {first_line(error)}") from error
                    except Exception as error:
                        raise RequestError(f"{under_way[future].where}: {first_line(error)}") from error
                    yield counted.event(under_way.pop(future), said)
                    give(1)
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()  # one that is asked to end counts its shard to the end first
            pool.shutdown(wait=False, cancel_futures=True)

    return engine


def _end_with_parent() -> None:
    """In a worker: end with the process that started it, and leave Ctrl-C to that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
