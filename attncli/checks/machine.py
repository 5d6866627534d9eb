"""Measure time on this machine."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


def median_seconds(runs: dict[str, Callable[[], object]], rounds: int, device: torch.device) -> dict[str, float]:
    """Return the median time of each run. Every round runs all of them, and begins with another one than the last.

    Freeing a run's result is not in its time.
    """
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            finish(device)
            begun = time.perf_counter()
            result = runs[name]()
            finish(device)
            times[name].append(time.perf_counter() - begun)
            del result
    return {name: statistics.median(taken) for name, taken in times.items()}


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
