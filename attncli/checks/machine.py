"""Measure on this machine: its processor, and the time and memory that programs take on it."""

import ctypes
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from attncli.models.devices import STORAGE

CPUINFO = Path("/proc/cpuinfo")
# Instruction sets that make products of matrices faster, as Linux calls them.
INSTRUCTIONS = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "asimdhp",
    "bf16",
    "sve",
)


def processor() -> tuple[str, list[str]]:
    """Return its name and its INSTRUCTIONS; the kind of machine and none on a system that doesn't tell."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    if CPUINFO.is_file():
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name":
                name = value.strip()
            elif field.strip() in ("flags", "Features"):
                flags = set(value.split())
    return name, [one for one in INSTRUCTIONS if one in flags]


# --- time ---------------------------------------------------------------------------------------------

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


# --- memory -------------------------------------------------------------------------------------------

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_added(run: Callable[[], object], device: torch.device) -> int | None:
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
    STORAGE.forget()
    if sys.platform != "linux":
        return False
    try:
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR_REFS.write_text("5")
    except (OSError, AttributeError):
        return False
    return True


def status_bytes(name: str) -> int:
    """A field of /proc/self/status, which gives it in kB."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")
