"""Time programs that take turns."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Run = Callable[[], object]


def median_seconds(
    runs: dict[str, Run], rounds: int, device: torch.device, done: Callable[[], None]
) -> dict[str, float]:
    """Return the median time of each run. Every round runs all of them, and begins with another one than the last."""
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(seconds_of(runs[name], device))
            done()
    return {name: statistics.median(taken) for name, taken in times.items()}


def seconds_of(run: Run, device: torch.device) -> float:
    """Return the time that a run takes, without freeing its result."""
    finish(device)
    begun = time.perf_counter()
    result = run()
    finish(device)
    taken = time.perf_counter() - begun
    del result
    return taken


def finish(device: torch.device) -> None:
    """Wait for an accelerator to finish."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: texts may be so short that several threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
