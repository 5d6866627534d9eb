"""How long things take, taking turns; and how fast this machine multiplies matrices."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from attncli.models.network import Linear

PRODUCT = (4096, 768, 3072)  # rows, in, out: the feed-forward projection of bert-base for 8 texts of 512 tokens
PRODUCT_REPEATS = 3

Run = Callable[[], object]


def median_seconds(
    runs: dict[str, Run], rounds: int, device: torch.device, done: Callable[[], None]
) -> dict[str, float]:
    """The median time of each. Every round runs all of them, and begins with another one than the last."""
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(seconds_of(runs[name], device))
            done()
    return {name: statistics.median(taken) for name, taken in times.items()}


def seconds_of(run: Run, device: torch.device) -> float:
    """How long a run takes, freeing its result not included."""
    finish(device)
    begun = time.perf_counter()
    result = run()
    finish(device)
    taken = time.perf_counter() - begun
    del result
    return taken


def finish(device: torch.device) -> None:
    """Wait for what an accelerator still does."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def product_flops() -> int:
    """Floating-point operations of the product below; one multiply-add is two."""
    rows, width, out = PRODUCT
    return 2 * rows * width * out


def product_seconds(device: torch.device, dtype: torch.dtype = torch.float32) -> dict[str, list[float]]:
    """Times of one large matrix product: torch's own way, and the one that attncli's linear layers take."""
    rows, width, out = PRODUCT
    x = torch.randn(rows, width, device=device, dtype=dtype)
    linear = Linear(width, out, bias=False, device=device).requires_grad_(False).to(dtype)
    linear.weight.normal_()
    linear.pack()
    ways: dict[str, Run] = {"torch.mm": lambda: torch.mm(x, linear.weight.T), "attncli": lambda: linear(x)}
    with torch.inference_mode():
        for way in ways.values():
            way()
        return {name: [seconds_of(way, device) for _ in range(PRODUCT_REPEATS)] for name, way in ways.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: texts may be so short that several threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
