"""Shards counted on Ray: actors that open the model once each, on this machine or on a cluster.

Ray starts an actor again that has died, and its shard with it. A worker that is on another machine reads inputs and the
model where it is: by address, or from files that are there. Sums of a folder of this machine come back to the driver,
which keeps them; into one that has an address each worker writes by itself.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.installing import install_hint
from attncli.base.printable import first_line
from attncli.corpus.shards.engine import TRIES, Counted, Engine, Event, Failed, count_quietly, failed
from attncli.corpus.shards.folder import Folder
from attncli.corpus.shards.plan import Shard
from attncli.corpus.shards.work import Counts, Work


def on_ray(address: str | None, workers: int | None = None, gpus: float = 0.0) -> Engine:
    """The engine of so many actors, by default as many as there is room for, each with a core, or that share of a GPU.

    address: of a cluster; None is the one that RAY_ADDRESS names or that runs on this machine, else a new one here.

    Raises RequestError where Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error

    def engine(work: Work[Any], shards: Iterator[Shard], folder: Folder | None) -> Iterator[Event]:
        there = folder if folder is not None and folder.everywhere else None
        with connected(address):
            tries = ray.remote(num_cpus=0)(Tries).remote()
            make = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=TRIES - 1)(Worker)
            room = room_for(gpus)
            doing: dict[Any, tuple[Any, Shard]] = {}
            actors = []
            try:
                for shard in islice(shards, workers or room):
                    actors.append(make.remote(work.away()))
                    doing[count_on(actors[-1], shard, there, tries)] = actors[-1], shard
                while doing:
                    [done], _ = ray.wait(list(doing), num_returns=1)
                    actor, shard = doing.pop(done)
                    yield outcome(done, shard)
                    if (following := next(shards, None)) is not None:
                        doing[count_on(actor, following, there, tries)] = actor, following
            finally:
                for actor in actors:
                    ray.kill(actor)

    return engine


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """With a cluster, whichever this process is connected to already. Raises RequestError where there is none at that
    address.

    What Ray has to say it writes to stdout, from a thread: nobody sees that, as failures are counted and told of.
    """
    import ray

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        if ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
        try:
            ray.init(address, include_dashboard=None if address else False, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise RequestError(f"can't reach Ray{f' at {address}' if address else ''}: {first_line(error)}") from error
        try:
            yield
        finally:
            ray.shutdown()


def room_for(gpus: float) -> int:
    """How many workers a cluster has room for. Raises RequestError where it has none with a GPU."""
    import ray

    resources = ray.cluster_resources()
    room = resources.get("CPU", 1)
    if gpus:
        room = min(room, resources.get("GPU", 0) / gpus)
        if room < 1:
            raise RequestError(f"Ray has {resources.get('GPU', 0):g} GPUs, and a worker wants {gpus:g}: --worker-gpus")
    return max(1, int(room))


def count_on(actor: Any, shard: Shard, folder: Folder | None, tries: Any) -> Any:
    return actor.count.options(retry_exceptions=True).remote(shard, folder, tries)


def outcome(done: Any, shard: Shard) -> Event:
    """What has become of a shard. Raises RequestError for what is wrong with the request."""
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
        return failed(shard, found.error, found.tries) or found
    return found


class Tries:
    """An actor that knows how often each shard was begun."""

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

    def count(self, shard: Shard, folder: Folder | None, known: Any) -> Counted | Failed:
        """A failure that another try would not mend comes back; any other is raised, and Ray tries again."""
        import ray

        tries = ray.get(known.again.remote(shard.number))
        try:
            if self.counts is None:
                cores = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
                self.counts = self.work.begin(cores)
            return count_quietly(self.work, self.counts, shard, folder)._replace(tries=tries)
        except RequestError as error:
            return Failed(shard, error, tries)
