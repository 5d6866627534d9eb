"""Measure on this machine: its processor, and the memory that a call takes on it."""

import ctypes
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attncli.models.devices import STORAGE

Run = Callable[[], object]
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Watch(TorchDispatchMode):
    """Keeps the sizes, in bytes, and the shapes of all tensors that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, torch.Tensor):
                self.sizes.append(part.untyped_storage().nbytes())
                self.shapes.append(tuple(part.shape))
        return result


def processor() -> str:
    """Return the processor's name, or the kind of machine on a system that doesn't tell."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def peak_added(run: Run, device: torch.device) -> int | None:
    """Bytes in use at the call's peak, less those in use before it; what the call returns is among them.

    On a CUDA device, of that device's memory as torch allocates it. On Linux, of the process's resident
    memory, to about a megabyte. None elsewhere: nothing there tells a peak that begins with the call.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    if device.type != "cpu" or not forget_peak():
        return None
    resident = status_bytes("VmRSS")
    run()
    return max(0, status_bytes("VmHWM") - resident)


def forget_peak() -> bool:
    """Make the resident memory of now the peak so far (man 5 proc: 5 in clear_refs), where that works.

    Freed memory is first given back to the system; a call that reuses it would seem to need less.
    """
    gc.collect()
    STORAGE.waiting.clear()
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR_REFS.write_text("5")
    except (OSError, AttributeError):
        return False
    return True


def status_bytes(name: str) -> int:
    """Return a field of /proc/self/status, which gives it in kB."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")


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
