"""Engines: make the sums of shards, in this process (`here`), in several of this machine (`processes`), or on Ray."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.shards import Counts, Shard, Work

TRIES = 3  # of a shard, on Ray
# Seconds of each of the three tries of Ray's client to connect: by default they take 35. It reads them when imported.
CONNECTING = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}


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


@contextmanager
def pool(cores: int, threads: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads that compute on one core each, while this thread computes on so many `threads`.

    The last bit of a product may depend on the number of cores that share it.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    each = ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        each.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


# --- other processes --------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """The sums of a shard from another process, or the error of the request; and its notices."""

    total: Any
    notices: Sequence[str]
    error: RequestError | None = None


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


def _spread(
    missing: Iterator[Shard],
    room: int,
    submit: Callable[[Shard], "Future[Counted]"],
    explain: Callable[[Exception, str], str],
) -> Iterator[Event]:
    """Yield the sums of shards, so many of which are counted at a time, and the notices that nobody has given yet.

    submit: begins to count a shard. explain: what a failure says, of an error and the name of its shard.
    """
    under_way: dict[Future[Counted], Shard] = {}
    said: set[str] = set()
    while True:
        for shard in islice(missing, room - len(under_way)):
            under_way[submit(shard)] = shard
        if not under_way:
            return
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            try:
                counted = future.result()
            except Exception as error:
                alone = not isinstance(error, BrokenExecutor)  # else nobody knows whose worker died
                shards = [under_way[future]] if alone else under_way.values()
                raise RequestError(explain(error, " or ".join(shard.where for shard in shards))) from error
            for notice in counted.notices:
                if notice not in said:
                    warnings.warn(notice, Notice, stacklevel=2)
            said.update(counted.notices)
            if counted.error is not None:
                raise counted.error
            yield Event(under_way.pop(future).number, counted.total)


def processes(workers: int, cores: int) -> Engine:
    """Return the engine of several processes with so many cores each. One that dies ends the run."""

    def explain(error: Exception, where: str) -> str:
        died = f"a worker died while it counted {where}" if isinstance(error, BrokenExecutor) else where
        return f"{died}: {first_line(error)}"

    def engine(work: Work[Any], missing: Iterator[Shard]) -> Iterator[Event]:
        each = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
        away = replace(work, model=None)
        try:
            yield from _spread(missing, workers, lambda shard: each.submit(count_there, away, cores, shard), explain)
        finally:
            for process in list((each._processes or {}).values()):
                process.kill()  # one that is asked to end counts its shard to the end first
            each.shutdown(wait=False, cancel_futures=True)

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


# --- Ray --------------------------------------------------------------------------------------------------


def on_ray(address: str | None, workers: int | None = None, gpus: float = 0.0) -> Engine:
    """Return the engine of so many tasks at a time, by default as many as fit, each with a core or that share of a GPU.

    Ray tries a task again if its worker dies. A worker opens the model once: it finds the model by address, or among
    the files of its machine.

    address: of a cluster; None is the one that RAY_ADDRESS names or that runs on this machine, else a new one here.

    Raises RequestError if Ray is not installed.
    """
    os.environ.update({name: os.environ.get(name, seconds) for name, seconds in CONNECTING.items()})
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error

    def explain(error: Exception, where: str) -> str:
        return f"{where}: failed {TRIES} times ({first_line(getattr(error, 'cause', None) or error)})"

    def engine(work: Work[Any], missing: Iterator[Shard]) -> Iterator[Event]:
        with _connected(address):
            there = ray.cluster_resources()
            if there.get("GPU", 0) < gpus:
                raise RequestError(f"Ray has {there.get('GPU', 0):g} GPUs, and a worker wants {gpus:g}: --worker-gpus")
            room = workers or max(1, int(there.get("GPU", 0) / gpus if gpus else there.get("CPU", 1)))
            count = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1, retry_exceptions=True)(count_there)
            away = ray.put(replace(work, model=None))
            yield from _spread(missing, room, lambda shard: count.remote(away, 1, shard).future(), explain)

    return engine


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, unless this process already is. Raises RequestError if there is none at that address.

    The messages that Ray writes to stdout from a thread are dropped: failures are reported.
    """
    import ray

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        if ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # reports to its makers
        try:
            ray.init(address, include_dashboard=None if address else False, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise RequestError(f"can't reach Ray{f' at {address}' if address else ''}: {first_line(error)}") from error
        try:
            yield
        finally:
            ray.shutdown()
