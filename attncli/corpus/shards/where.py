"""Where and how a corpus is gone through: the options that all commands for corpora have in common."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attncli.base.errors import RequestError
from attncli.corpus.inputs.files import Input
from attncli.corpus.shards.engine import Engine
from attncli.corpus.shards.folder import Folder, folder_at
from attncli.corpus.shards.here import here

HERE, RAY = "here", "ray"
MOST_A_CORE = 16  # processes: each takes memory, and from two on none of them is faster


@dataclass(frozen=True)
class Where:
    """Where shards are counted, and where their sums are kept.

    on: "here", "ray" for a Ray that runs, or else one of this machine, or the address of one (`ray://...`).
    workers: how many count side by side; by default this process alone, on all its cores; on Ray as many as there is
    room for. gpus: that each worker has on Ray, also a part of one. state: a folder, or its address, in which sums are
    kept; None keeps none. shard_bytes: of a shard; None is SHARD_BYTES, or what the folder was begun with.

    Raises RequestError for an engine that there is not, and for what has no effect on it.
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
        if self.workers is not None and not self.on_ray and self.workers > MOST_A_CORE * cores():
            most = MOST_A_CORE * cores()
            raise RequestError(f"--workers {self.workers}: this machine bears {most} at the most")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise RequestError(f"--worker-gpus {self.gpus:g}: more than one GPU are a whole number of them")

    @property
    def on_ray(self) -> bool:
        return self.on == RAY or self.on.startswith(f"{RAY}://")

    @property
    def address(self) -> str | None:
        """The address of a cluster, where one is named."""
        return None if self.on in (HERE, RAY) else self.on

    @property
    def apart(self) -> bool:
        """Whether other processes count."""
        return self.on_ray or self.workers is not None

    @property
    def device(self) -> str | None:
        """What workers that are elsewhere compute on; None where that is for the model to say."""
        return ("cuda" if self.gpus else "cpu") if self.on_ray else None

    @property
    def folder(self) -> Folder | None:
        return None if self.state is None else folder_at(self.state)

    def inside(self, name: str) -> "Where":
        """The same, with sums in a folder of that name in the one that there is."""
        return self if self.state is None else replace(self, state=f"{self.state.rstrip('/')}/{name}")

    def engine(self) -> Engine:
        """Raises RequestError where the engine needs what is not installed."""
        if self.on_ray:
            from attncli.corpus.shards.on_ray import on_ray

            return on_ray(self.address, self.workers, self.gpus)
        if self.workers is not None:
            from attncli.corpus.shards.processes import processes

            return processes(self.workers, cores())
        return here()

    def check_cluster(self) -> None:
        """Raises RequestError where nothing answers at the address of a cluster."""
        if self.on_ray:
            from attncli.corpus.shards.on_ray import check_cluster

            check_cluster(self.address)

    def check(self, inputs: Sequence[Input]) -> None:
        """Raises RequestError where an input can be read only once, and would have to be read again or elsewhere; and
        as `check_cluster`.
        """
        if (self.apart or self.state is not None) and any(one.is_stream for one in inputs):
            option = "--state" if self.state is not None else "--on" if self.on_ray else "--workers"
            raise RequestError(f"{option} is for files, and stdin can be read only once, here: save it to a file first")
        self.check_cluster()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
