"""The processor that a program is measured on."""

import platform
from pathlib import Path

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
