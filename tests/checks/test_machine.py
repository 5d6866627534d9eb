"""The machine: its processor, time on it, and peaks of memory."""

import statistics
import sys
import time

import numpy as np
import pytest
import torch

from attncli.checks import machine
from attncli.checks.machine import median_seconds, peak_added, processor

# --- the processor ---------------------------------------------------------------------------------------


INTEL = "processor\t: 0\nmodel name\t: Some Xeon @ 2.50GHz\nflags\t\t: fpu avx avx2 avx512f amx_bf16\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16\n"


@pytest.mark.parametrize(
    ("content", "instructions"), [(INTEL, ["avx2", "avx512f", "amx_bf16"]), (ARM, ["asimd", "bf16", "sve"]), ("", [])]
)
def test_a_processor_is_what_the_system_says_it_is(content, instructions, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    name, found = processor()
    assert found == instructions and name
    assert (name == "Some Xeon @ 2.50GHz") == (content == INTEL)


def test_where_nothing_tells_there_is_a_name_still(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    name, found = processor()
    assert name and found == []


# --- timing ----------------------------------------------------------------------------------------------


CPU = torch.device("cpu")


def test_medians_of_rounds_that_each_begin_with_another(monkeypatch):
    now = 0.0
    order: list[str] = []
    durations = {"slow": [9.0, 1.0, 5.0], "even": [2.0, 2.0, 2.0]}
    left = {name: iter(taken) for name, taken in durations.items()}

    def run(name):
        nonlocal now
        order.append(name)
        now += next(left[name])

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    steps: list[None] = []
    runs = {name: lambda name=name: run(name) for name in durations}
    medians = median_seconds(runs, 3, CPU, lambda: steps.append(None))
    assert medians == {name: statistics.median(taken) for name, taken in durations.items()}
    assert order == ["slow", "even", "even", "slow", "slow", "even"]
    assert len(steps) == 6


# --- memory ----------------------------------------------------------------------------------------------


MIB = 2**20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_the_peak_is_of_the_call_alone():
    held = np.ones(96 * MIB, dtype=np.uint8)  # in use before: not the call's
    earlier = np.ones(200 * MIB, dtype=np.uint8)
    del earlier  # a higher peak, but before the call

    def passing():
        np.ones(64 * MIB, dtype=np.uint8)  # freed before the call ends; the allocator may keep it
        return np.ones(16 * MIB, dtype=np.uint8)

    for _ in range(2):  # the second call has no freed memory to reuse
        peak = peak_added(passing, CPU)
        assert peak is not None
        assert 60 * MIB < peak < (64 + 16 + 12) * MIB  # less than what was held, or once was
    assert held.all()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux only")
def test_small_pieces_count_too():
    size = 4096
    peaks = [peak_added(lambda: [bytes(size) for _ in range(8192)], CPU) for _ in range(2)]
    assert all(peak is not None and 0.9 * 8192 * size < peak < 1.3 * 8192 * size for peak in peaks)


def test_elsewhere_it_is_not_known(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_added(lambda: None, CPU) is None
    assert peak_added(lambda: None, torch.device("mps")) is None
