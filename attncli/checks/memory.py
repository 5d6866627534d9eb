"""Measure the memory that a call needs, in addition to the memory in use before."""

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from attncli.models.devices import STORAGE

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

    What was freed is first given back to the system: whoever reused it would seem to need less.
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


def process_peak() -> int | None:
    """The most bytes of memory that this process has had since it began; None where the system does not tell."""
    return status_bytes("VmHWM") if STATUS.is_file() else None


def status_bytes(name: str) -> int:
    """A field of /proc/self/status, which gives it in kB."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")
