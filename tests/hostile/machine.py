"""Makes cases, runs them on all cores, and counts: what was tried, what was refused, what fell, and why.

Workers are forked from a process that has imported everything; each forks once more for every call (`hostile.running`).
"""

import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from hostile import kinds
from hostile.case import Case
from hostile.place import Place, make_place
from hostile.running import Runner

PROCESSES = multiprocessing.get_context("fork")
SETTINGS = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}  # fmt: skip
HIDDEN = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "ATTNCLI_MODEL", "ATTNCLI_QUIET", "PYTHONIOENCODING")


class Task(NamedTuple):
    kind: str
    seed: int
    number: int


class Result(NamedTuple):
    """code: how the call ended; None where the worker ended with it."""

    task: Task
    code: int | None
    why: str | None
    case: Case | None


@dataclass
class Count:
    """What came of the cases of a kind. fell: the first of those that fell in the same way, and how many did."""

    cases: int = 0
    refused: int = 0
    done: int = 0
    seconds: float = 0.0
    fell: dict[str, tuple[Result, int]] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.cases += 1
        if result.why is not None:
            way = re.sub(r"\d+", "#", f"{result.case.arguments[0] if result.case else ''} {result.why}")[:120]
            first, count = self.fell.get(way, (result, 0))
            self.fell[way] = first, count + 1
        elif result.code == 2:
            self.refused += 1
        else:
            self.done += 1

    @property
    def falls(self) -> int:
        return sum(count for _, count in self.fell.values())


@contextmanager
def machine(foreign: bool = True) -> Iterator[Place]:
    """A place to run in, made by a process of its own, so that nothing of it is left here; then everything is imported."""
    os.environ.update(SETTINGS)
    for name in HIDDEN:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="attncli-hostile-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve() / "place"
        folder.mkdir()
        maker = PROCESSES.Process(target=make_place, args=(folder, foreign))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise SystemExit("the place could not be made")
        import_everything(foreign)
        yield Place(folder)


def import_everything(foreign: bool) -> None:
    """What commands import when they are called, so that children find it there; and no thread but this one."""
    import gc
    import importlib
    import pkgutil

    import torch

    import attncli

    torch.set_num_threads(1)
    modules = ["matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "safetensors.numpy", "tokenizers",
        "safetensors.torch", "sklearn.manifold", "sklearn.cluster", "scipy.sparse.csgraph", "conllu", "rich.console",
        "rich.table", "written_documents", *(["transformers"] if foreign else []),
    ]  # fmt: skip
    for name in modules:
        importlib.import_module(name)
    for found in pkgutil.walk_packages(attncli.__path__, "attncli."):
        if not found.name.endswith("__main__") and (foreign or "transformers" not in found.name):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


def work(pipe: Connection, place: Place, folder: Path) -> None:
    """A worker: gets tasks, sends results, until it gets None."""
    folder.mkdir()
    runner = Runner(place, folder)
    while (task := pipe.recv()) is not None:
        case = kinds.make(*task, place)
        code, why = kinds.look(case, runner)
        pipe.send(Result(task, code, why, case if why is not None else None))


class Worker:
    """A process that runs tasks one by one, and can be replaced."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.task: Task | None = None
        self.begun = 0.0
        self.start()

    def start(self) -> None:
        self.pipe, other = PROCESSES.Pipe()
        folder = Path(tempfile.mkdtemp(dir=self.folder)) / "here"
        self.process = PROCESSES.Process(target=work, args=(other, self.place, folder), daemon=True)
        self.process.start()
        other.close()

    def give(self, task: Task | None) -> None:
        self.task, self.begun = task, time.monotonic()
        self.pipe.send(task)

    def result(self) -> Result:
        """What it sends; where it ended, that it did, and another takes its place."""
        assert self.task is not None
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            task, code = self.task, self.process.exitcode
            self.start()
            return Result(task, None, f"ends the worker: exit {code}", None)


def search(
    place: Place, tasks: Iterator[Task], until: float, workers: int, tell: Callable[[Result], None]
) -> dict[str, Count]:
    """Runs tasks until there are none or the time is over. tell: is called with everything that fell."""
    counts: dict[str, Count] = {}
    every = [Worker(place, place.folder.parent) for _ in range(workers)]

    def feed(worker: Worker) -> None:
        task = next(tasks, None) if time.monotonic() < until else None
        worker.give(task)

    for worker in every:
        feed(worker)
    while busy := {worker.pipe: worker for worker in every if worker.task is not None}:
        for pipe in wait(list(busy)):
            worker = busy[pipe]
            result = worker.result()
            count = counts.setdefault(result.task.kind, Count())
            count.add(result)
            count.seconds += time.monotonic() - worker.begun
            if result.why is not None:
                tell(result)
            feed(worker)
    for worker in every:
        worker.process.join(5)
    return counts


def tasks_of(chosen: Sequence[str], seed: int, shares: dict[str, int], most: int | None) -> Iterator[Task]:
    """Kinds in turn, each as often as its share; `most`: so many in all."""
    numbers = dict.fromkeys(chosen, 0)
    given = 0
    while most is None or given < most:
        for kind in chosen:
            for _ in range(shares.get(kind, 1)):
                yield Task(kind, seed, numbers[kind])
                numbers[kind] += 1
                given += 1
                if given == most:
                    return


def table(counts: dict[str, Count], seconds: float) -> str:
    """A row a kind; a second is of all workers together, while they ran that kind."""
    rows: list[Sequence[Any]] = [("kind", "cases", "refused", "done", "fell", "ways", "cases a second")]
    spent = sum(count.seconds for count in counts.values()) or 1.0
    for kind, one in counts.items():
        rate = one.cases / (seconds * one.seconds / spent) if one.seconds else 0.0
        rows.append((kind, one.cases, one.refused, one.done, one.falls, len(one.fell), f"{rate:.1f}"))
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) if number == 0 else str(cell).rjust(width)
                  for number, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )  # fmt: skip
