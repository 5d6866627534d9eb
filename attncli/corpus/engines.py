"""Engines: make the sums of shards, in this process (`here`), in several of this machine (`processes`), or on Ray.

An engine is a context that yields how many shards it counts side by side, and a function that begins to count one.
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.shards import Counts, Shard, Work

TRIES = 3  # of a shard on Ray whose worker dies
# Seconds of each of the three tries of Ray's client to connect: by default they take 35. It reads them when imported.
CONNECTING = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}


class Counted(NamedTuple):
    """The sums of a shard, and the notices that were given meanwhile."""

    total: Any
    notices: Sequence[str] = ()


Submit = Callable[[Shard], Future[Counted]]
Workers = AbstractContextManager[tuple[int, Submit]]


@contextmanager
def here(work: Work[Any], tell: Callable[[Any], None]) -> Iterator[tuple[int, Submit]]:
    """Count in this process, on all its cores. tell: is given the sums so far of a shard after every step."""
    counts = None

    def submit(shard: Shard) -> Future[Counted]:
        nonlocal counts
        counts = counts or work.begin(None)
        total = work.nothing()
        for total in counts(shard):
            tell(total)
        done = Future[Counted]()
        done.set_result(Counted(total))
        return done

    yield 1, submit


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

_begun: dict[str, Counts[Any]] = {}  # by the digest of the work: the model is opened once in a process


def count_there(work: Work[Any], cores: int, shard: Shard) -> Counted:
    """Count a shard in a process that has no user."""
    total = work.nothing()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        if work.digest not in _begun:
            _begun[work.digest] = work.begin(cores)
        for so_far in _begun[work.digest](shard):
            total = so_far
    return Counted(total, [str(one.message) for one in caught if issubclass(one.category, Notice)])


@contextmanager
def processes(work: Work[Any], workers: int, cores: int) -> Iterator[tuple[int, Submit]]:
    """Count in several processes with so many cores each. One that dies ends the run."""
    each = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
    away = replace(work, model=None)
    try:
        yield workers, lambda shard: each.submit(count_there, away, cores, shard)
    finally:
        for process in list((each._processes or {}).values()):
            process.kill()  # one that is asked to end counts its shard to the end first
        each.shutdown(wait=False, cancel_futures=True)


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


@contextmanager
def on_ray(
    work: Work[Any], address: str | None, workers: int | None = None, gpus: float = 0.0
) -> Iterator[tuple[int, Submit]]:
    """Count in so many tasks at a time, by default as many as fit, each with a core or that share of a GPU.

    Ray tries a task again if its worker dies. A worker opens the model once: it finds the model by address, or among
    the files of its machine.

    address: of a cluster; None is the one that RAY_ADDRESS names or that runs on this machine, else a new one here.

    Raises RequestError if Ray is not installed or not there, or has too few GPUs.
    """
    os.environ.update({name: os.environ.get(name, seconds) for name, seconds in CONNECTING.items()})
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error
    # Messages that Ray writes to stdout from a thread are dropped: failures are reported.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        connected = not ray.is_initialized()
        if connected:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # reports to its makers
            dashboard = None if address else False
            try:
                ray.init(address, include_dashboard=dashboard, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                at = f" at {address}" if address else ""
                raise RequestError(f"can't reach Ray{at}: {first_line(error)}") from error
        try:
            there = ray.cluster_resources()
            if there.get("GPU", 0) < gpus:
                raise RequestError(f"Ray has {there.get('GPU', 0):g} GPUs, and a worker wants {gpus:g}: --worker-gpus")
            room = workers or max(1, int(there.get("GPU", 0) / gpus if gpus else there.get("CPU", 1)))
            count = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1)(count_there)
            away = ray.put(replace(work, model=None))
            yield room, lambda shard: count.remote(away, 1, shard).future()
        finally:
            if connected:
                ray.shutdown()
