"""What a program is measured on: the processor, what it can do, and how fast it reads and writes memory."""

import platform
from pathlib import Path
from typing import Any

import torch

from attncli.checks.timing import Run, seconds_of

CPUINFO = Path("/proc/cpuinfo")
# Those that make products of matrices faster, as Linux calls them.
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
BYTES = 2**28  # more than a cache holds
REPEATS = 5


def processor() -> tuple[str, list[str]]:
    """Its name, and which of INSTRUCTIONS it has; on a system that doesn't tell, the kind of machine and none."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    if CPUINFO.is_file():
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name":
                name = value.strip()
            elif field.strip() in ("flags", "Features"):
                flags = set(value.split())
    return name, [one for one in INSTRUCTIONS if one in flags]


def memory_rates(device: torch.device) -> dict[str, float]:
    """Bytes a second that are read (a sum), and written into memory that is already there: the best seen."""
    room = torch.zeros(BYTES // 4, device=device)
    ways: dict[str, Run] = {"read": room.sum, "write": lambda: room.fill_(1.0)}
    for way in ways.values():
        way()
    return {name: BYTES / min(seconds_of(way, device) for _ in range(REPEATS)) for name, way in ways.items()}


def machine_document(device: torch.device) -> dict[str, Any]:
    """What documents say of it."""
    name, instructions = processor()
    return {"processor": name, "instructions": instructions, "bytes_per_second": memory_rates(device)}
