"""Makes cases, runs them on all cores, and counts: what was tried, what was refused, what fell, and why.

Workers are forked from a process that has imported everything; each forks once more for every call (`hostile.running`).
"""

import importlib
import multiprocessing
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

from hostile import kinds
from hostile.case import Case
from hostile.place import Place, make_files, make_models, words
from hostile.running import Runner

FIRST = 8  # cases of each kind, before there are more of those that take less time
PROCESSES = multiprocessing.get_context("fork")
SETTINGS = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's memory pool, which would start a thread
}  # fmt: skip
HIDDEN = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "ATTNCLI_MODEL", "ATTNCLI_QUIET", "PYTHONIOENCODING")
# Calls that between them import what all others do.
WARM = (
    "run -m tiny --pair it @ --json", "run --from maps.npz -l 0 -H 0", "heatmap -m tiny -l 0 -H 0 -o a.svg @",
    "stats -m tiny --distances --json lines.txt", "stats --from stats.json --json", "find -m tiny cat sat @",
    "models --json",
    "view --from texts.safetensors -o a.html", "diff maps.npz others.npz", "explain --from vectors.safetensors",
    "run -m json @",
    "flow --from maps.npz", "probe -m tiny trees.conllu", "align --attention dot", "mask -m tiny @", "samples",
    "run -f lines.txt -m tiny -o b.safetensors", "stats -m tiny --jsonl text texts.jsonl -o a.svg",
)  # fmt: skip
FOREIGN = ("run -m gpt2 @", "compare -m tiny --json @", "mechanisms -m tiny")


class Task(NamedTuple):
    kind: str
    seed: int
    number: int


class Result(NamedTuple):
    """code: how the call ended."""

    task: Task
    code: int
    why: str | None
    case: Case | None


@dataclass
class Count:
    """The results of the cases of a kind. fell: the first of those that failed in the same way, and their number."""

    cases: int = 0
    refused: int = 0
    done: int = 0
    seconds: float = 0.0
    fell: dict[str, tuple[Result, int]] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.cases += 1
        if result.why is not None:
            way = re.sub(r"\d+", "#", f"{result.case.arguments[0] if result.case else ''} {result.why}")[:120]
            first, times = self.fell.get(way, (result, 0))
            self.fell[way] = first, times + 1
        elif result.code == 2:
            self.refused += 1
        else:
            self.done += 1

    @property
    def falls(self) -> int:
        return sum(times for _, times in self.fell.values())


@contextmanager
def machine(foreign: bool = True) -> Iterator[Place]:
    """A place to run in. Another process makes its models, so that transformers is not here unless it is wanted."""
    os.environ.update(SETTINGS)
    for name in HIDDEN:
        os.environ.pop(name, None)
    importlib.import_module("torch")  # once, for the maker too
    with passing_folder() as passing:
        folder = passing / "place"
        os.environ["ATTNCLI_CACHE"] = str(passing / "cache")
        folder.mkdir()
        maker = PROCESSES.Process(target=make_models, args=(folder, foreign))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise SystemExit("the models could not be made")
        warm(folder, WARM + FOREIGN if foreign else WARM)
        try:
            yield Place(folder)
        finally:
            del os.environ["ATTNCLI_CACHE"]


@contextmanager
def passing_folder() -> Iterator[Path]:
    """A folder that is removed at the end, and not by a child, which ends as the program does: what tempfile has would
    be.
    """
    folder = Path(tempfile.mkdtemp(prefix="attncli-hostile-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def warm(place: Path, lines: Sequence[str]) -> None:
    """Makes the place's files and some calls: what is imported and made by them, children find there.

    There is no thread but this one. Commands are made of their functions once, and not at each call.
    """
    import functools
    import gc

    import torch
    import typer.main
    from shell import in_process

    from attncli.features.document import sections
    from attncli.models import loading

    sections()
    torch.set_num_threads(1)
    loading.load_model = remembering_minilm(loading.load_model)
    typer.main.get_command = functools.cache(typer.main.get_command)
    settings = dict(os.environ)
    make_files(place)
    with passing_folder() as passing:
        for one in place.iterdir():
            (passing / one.name).symlink_to(one)
        for line in lines:
            result = in_process(words(line), passing)
            assert result.code == 0, (line, result)
    os.environ.clear()
    os.environ.update(settings)  # without what libraries set when they are imported
    alone = len(list(Path("/proc/self/task").iterdir()))
    assert alone == 1, f"{alone} threads: what is forked would have one of them"
    gc.collect()
    gc.freeze()


def remembering_minilm(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loader of models that keeps minilm loaded, since reading it takes longer than a call."""
    kept = load("minilm", "cpu")
    kept.attend("warm")

    def loaded(name: str, device: str = "auto", dtype: str = "float32", engine: str = "auto") -> Any:
        plain = (name, dtype, engine) == ("minilm", "float32", "auto") and device in ("auto", "cpu")
        return kept if plain else load(name, device, dtype, engine)

    return loaded


RUNNERS: list[Runner] = []  # this worker's


def begin(place: Place) -> None:
    """Make a worker's folder."""
    folder = Path(tempfile.mkdtemp(dir=place.folder.parent)) / "here"
    folder.mkdir()
    RUNNERS.append(Runner(place, folder))


def work(task: Task) -> tuple[Result, float]:
    """Run a case in a worker, and return what came of it and how long it took."""
    [runner], begun = RUNNERS, time.monotonic()
    case = kinds.make(*task, runner.place)
    code, why = kinds.look(case, runner)
    return Result(task, code, why, case if why is not None else None), time.monotonic() - begun


def search(
    place: Place, tasks: Iterator[Task], until: float, workers: int, tell: Callable[[Result], None]
) -> dict[str, Count]:
    """Run tasks until there are none or the time is over. tell: is called with every case that fell.

    Each case has a process of its own. Raises BrokenProcessPool for one that ends the worker around it.
    """
    counts: dict[str, Count] = {}
    with ProcessPoolExecutor(workers, PROCESSES, begin, (place,)) as pool:
        running = {pool.submit(work, task) for task in islice(tasks, workers)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for result, seconds in (one.result() for one in done):
                one = counts.setdefault(result.task.kind, Count())
                one.add(result)
                one.seconds += seconds
                if result.why is not None:
                    tell(result)
                task = next(tasks, None) if time.monotonic() < until else None
                running |= set() if task is None else {pool.submit(work, task)}
    return counts


def tasks_of(chosen: Sequence[str], seed: int, shares: dict[str, int], most: int | None) -> Iterator[Task]:
    """Some of every kind, then kinds in turn, each as often as its share; `most`: so many in all."""
    turns = chain([dict.fromkeys(chosen, FIRST)], repeat(shares))
    kinds_in_turn = (kind for turn in turns for kind in chosen for _ in range(turn[kind]))
    numbers = {kind: count() for kind in chosen}
    return islice((Task(kind, seed, next(numbers[kind])) for kind in kinds_in_turn), most)


def table(counts: dict[str, Count], seconds: float) -> str:
    """A row a kind; a second is of all workers together, while they ran that kind."""
    rows: list[Sequence[Any]] = [("kind", "cases", "refused", "done", "fell", "ways", "cases a second")]
    spent = sum(one.seconds for one in counts.values()) or 1.0
    for kind, one in counts.items():
        rate = one.cases / (seconds * one.seconds / spent) if one.seconds else 0.0
        rows.append((kind, one.cases, one.refused, one.done, one.falls, len(one.fell), f"{rate:.1f}"))
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) if number == 0 else str(cell).rjust(width)
                  for number, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )  # fmt: skip
