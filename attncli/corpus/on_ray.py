"""An engine on Ray: actors count shards, on this machine or on a cluster. Each opens the model once.

Ray restarts an actor that has died, and its shard. A worker on another machine reads inputs and the model by address,
or from files of that machine. For a folder of this machine, sums come back to the driver. Into a folder at an address
each worker writes directly.
"""

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line, printable, shorten
from attncli.corpus.engines import TRIES, Counted, Engine, Event, Failed, count_quietly, give_up
from attncli.corpus.folder import Folder
from attncli.corpus.shards import Counts, Shard, Work

CLIENT_PORT = 10001  # of an address without one
REACHED = 5.0  # seconds within which a host answers
# Seconds of each of the three tries of Ray's client, which by default takes 35 for all. It reads them when imported.
TRIED = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}


def on_ray(address: str | None, workers: int | None = None, gpus: float = 0.0) -> Engine:
    """Return the engine of so many actors, by default as many as fit, each with a core or that share of a GPU.

    address: of a cluster; None is the one that RAY_ADDRESS names or that runs on this machine, else a new one here.

    Raises RequestError if Ray is not installed.
    """
    ray = _import_ray()

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        there = folder if folder is not None and folder.everywhere else None
        with _connected(address):
            tries = ray.remote(num_cpus=0)(_Tries).remote()
            make = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=TRIES - 1)(Worker)
            room = _room_for(gpus)
            doing: dict[Any, tuple[Any, Shard]] = {}
            actors = []
            try:
                for shard in islice(shards, workers or room):
                    actors.append(make.remote(work.without_model()))
                    doing[_count_on(actors[-1], shard, there, tries)] = actors[-1], shard
                while doing:
                    [done], _ = ray.wait(list(doing), num_returns=1)
                    actor, shard = doing.pop(done)
                    yield _outcome(done, shard)
                    if (following := next(shards, None)) is not None:
                        doing[_count_on(actor, following, there, tries)] = actor, following
            finally:
                for actor in actors:
                    ray.kill(actor)

    return engine


def _import_ray() -> Any:
    for name, seconds in TRIED.items():
        os.environ.setdefault(name, seconds)
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error
    return ray


@cache
def check_cluster(address: str | None) -> None:
    """Check once that a cluster answers, after a Notice. Does not import Ray, which takes seconds.

    address: as for `on_ray`. Raises RequestError if nothing answers.
    """
    named = address or os.environ.get("RAY_ADDRESS", "")
    if ":" not in named:  # "auto" and "local" are for Ray to find
        return
    if (ray := sys.modules.get("ray")) is not None and ray.is_initialized():
        return
    shown = shorten(printable(named), 100)
    try:
        parts = urlsplit(named if "://" in named else f"//{named}")
        host, port = parts.hostname, parts.port or CLIENT_PORT
        (host or "").encode("idna")  # its labels are neither empty nor too long
    except ValueError:
        host = None
    if not host:
        raise RequestError(f"{shown} is no address of a Ray cluster: give ray://HOST:PORT")
    warnings.warn(f"waiting for Ray at {shown}", Notice, stacklevel=2)
    if (why := _why_unreachable(host, port)) is not None:
        raise RequestError(f"can't reach Ray at {shown}: {why}: start a cluster there, or name another address")


def _why_unreachable(host: str, port: int) -> str | None:
    """Return why nothing answers within REACHED; None if something does.

    The connection is tried in a thread, because looking up a host's name has no time limit.
    """
    found: list[str | None] = []

    def ask() -> None:
        try:
            socket.create_connection((host, port), REACHED).close()
            found.append(None)
        except (OSError, ValueError, OverflowError) as error:
            found.append(getattr(error, "strerror", None) or first_line(error))

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REACHED)
    return found[0] if found else f"it does not answer within {REACHED:g} seconds"


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, unless this process already is. Raises RequestError if there is none at that address.

    The messages that Ray writes to stdout from a thread are dropped: failures are counted and reported.
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


def _room_for(gpus: float) -> int:
    """Return the number of workers that fit into a cluster. Raises RequestError if it has no GPU for any."""
    import ray

    resources = ray.cluster_resources()
    room = resources.get("CPU", 1)
    if gpus:
        room = min(room, resources.get("GPU", 0) / gpus)
        if room < 1:
            raise RequestError(f"Ray has {resources.get('GPU', 0):g} GPUs, and a worker wants {gpus:g}: --worker-gpus")
    return max(1, int(room))


def _count_on(actor: Any, shard: Shard, folder: Folder | None, tries: Any) -> Any:
    return actor.count.options(retry_exceptions=True).remote(shard, folder, tries)


def _outcome(done: Any, shard: Shard) -> Event:
    """Return the outcome of a shard. Raises RequestError if the request is at fault."""
    import ray

    try:
        found = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        return Failed(shard, error.cause, TRIES)
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.ActorDiedError) and "creation task" in str(error):
            why = str(error).strip().splitlines()[-1].strip()
            raise RequestError(f"a worker on Ray can't begin ({why}): attncli has to be installed there") from error
        return Failed(shard, error, TRIES)
    if isinstance(found, Failed):
        return give_up(shard, found.error, found.tries) or found
    return found


class _Tries:
    """An actor that counts how often each shard was begun."""

    def __init__(self) -> None:
        self.begun: dict[int, int] = {}

    def again(self, number: int) -> int:
        self.begun[number] = self.begun.get(number, 0) + 1
        return self.begun[number]


class Worker:
    """An actor that has the model."""

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.counts: Counts[Any] | None = None

    def count(self, shard: Shard, folder: Folder | None, begun: Any) -> Counted | Failed:
        """Count a shard. An error of the request is returned; any other is raised, and Ray tries again."""
        import ray

        tries = ray.get(begun.again.remote(shard.number))
        try:
            if self.counts is None:
                cores = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
                self.counts = self.work.begin(cores)
            return count_quietly(self.work, self.counts, shard, folder)._replace(tries=tries)
        except RequestError as error:
            return Failed(shard, error, tries)
