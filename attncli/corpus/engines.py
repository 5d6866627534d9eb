"""Engines that compute the sums of shards: in this process (`here`), in several on this machine (`processes`), or on
Ray. An engine is a context manager. It yields the number of shards it counts in parallel, and a function that submits
one.
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

TRIES = 3  # per shard on Ray, if its worker dies
# Seconds for each of the three attempts of Ray's client to connect. The default takes 35 in total. Read on import.
CONNECTING = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}


class Counted(NamedTuple):
    """The sums of a shard, and the Notices given meanwhile."""

    total: Any
    notices: Sequence[str] = ()


Submit = Callable[[Shard], Future[Counted]]
Workers = AbstractContextManager[tuple[int, Submit]]


@contextmanager
def here(work: Work[Any], tell: Callable[[Any], None]) -> Iterator[tuple[int, Submit]]:
    """Count in this process, on all its cores. tell: called with a shard's sums so far after every step."""
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
    """Start one thread per core, each computing on one core, while this thread computes on `threads` cores.

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

_begun: dict[str, Counts[Any]] = {}  # by the digest of the work: a process opens the model only once


def count_in_worker(work: Work[Any], cores: int, shard: Shard) -> Counted:
    """Count a shard in a worker process, and collect its Notices."""
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
    """Count in several processes with `cores` cores each. If one dies, the run ends."""
    each = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
    away = replace(work, model=None)
    try:
        yield workers, lambda shard: each.submit(count_in_worker, away, cores, shard)
    finally:
        for process in list((each._processes or {}).values()):
            process.kill()  # a terminated one would first finish its shard
        each.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Make a worker end with its parent process, which alone handles Ctrl-C."""
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
    """Count in parallel tasks, each with one core or with `gpus` GPUs.

    workers: their number; by default, as many as fit. Ray repeats a task if its worker dies. A worker opens the model
    once, from the hub or from its machine's files. address: of a cluster. None: the one that RAY_ADDRESS names or that
    runs on this machine, else a new one here. Raises RequestError if Ray is not installed, can't be reached, or has too
    few GPUs.
    """
    os.environ.update({name: os.environ.get(name, seconds) for name, seconds in CONNECTING.items()})
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error
    # Ray also writes to stdout from a thread. These messages are dropped, since failures are reported anyway.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        connected = not ray.is_initialized()
        if connected:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # telemetry
            dashboard = None if address else False
            try:
                ray.init(address, include_dashboard=dashboard, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                at = f" at {address}" if address else ""
                raise RequestError(f"can't reach Ray{at}: {first_line(error)}") from error
        try:
            there = ray.cluster_resources()
            if there.get("GPU", 0) < gpus:
                raise RequestError(
                    f"Ray has {there.get('GPU', 0):g} GPUs, but each worker needs {gpus:g}: lower --worker-gpus"
                )
            room = workers or max(1, int(there.get("GPU", 0) / gpus if gpus else there.get("CPU", 1)))
            count = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1)(count_in_worker)
            away = ray.put(replace(work, model=None))
            yield room, lambda shard: count.remote(away, 1, shard).future()
        finally:
            if connected:
                ray.shutdown()
