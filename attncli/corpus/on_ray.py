"""Count shards on Ray, on this machine or on a cluster: a task for each, which Ray tries again if its worker dies.

A worker opens the model once. It finds the model by address, or among the files of its machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.engines import Engine, Event, count_there
from attncli.corpus.shards import Shard, Work

TRIES = 3  # of a shard
# Seconds of each of the three tries of Ray's client to connect: by default they take 35. It reads them when imported.
CONNECTING = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2"}


def on_ray(address: str | None, workers: int | None = None, gpus: float = 0.0) -> Engine:
    """Return the engine of so many tasks at a time, by default as many as fit, each with a core or that share of a GPU.

    address: of a cluster; None is the one that RAY_ADDRESS names or that runs on this machine, else a new one here.

    Raises RequestError if Ray is not installed.
    """
    os.environ.update({name: os.environ.get(name, seconds) for name, seconds in CONNECTING.items()})
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"--on ray needs Ray: {install_hint('ray')}") from error

    def engine(work: Work[Any], missing: Iterator[Shard]) -> Iterator[Event]:
        with _connected(address):
            there = ray.cluster_resources()
            if there.get("GPU", 0) < gpus:
                raise RequestError(f"Ray has {there.get('GPU', 0):g} GPUs, and a worker wants {gpus:g}: --worker-gpus")
            room = there.get("GPU", 0) / gpus if gpus else there.get("CPU", 1)
            count = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1, retry_exceptions=True)(count_there)
            away = ray.put(work.without_model())
            under_way: dict[Any, Shard] = {}
            said: set[str] = set()

            def give(number: int) -> None:
                for shard in islice(missing, number):
                    under_way[count.remote(away, 1, shard)] = shard

            give(workers or max(1, int(room)))
            while under_way:
                [done], _ = ray.wait(list(under_way), num_returns=1)
                shard = under_way.pop(done)
                try:
                    counted = ray.get(done)
                except ray.exceptions.RayError as error:
                    why = first_line(getattr(error, "cause", None) or error)
                    raise RequestError(f"{shard.where}: failed {TRIES} times ({why})") from error
                yield counted.event(shard, said)
                give(1)

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
