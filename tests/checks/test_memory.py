"""Peaks of memory: of the call alone, and not known where nothing tells."""

import sys

import numpy as np
import pytest
import torch

from attncli.checks.machine import peak_added

CPU = torch.device("cpu")
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

    for _ in range(2):  # whoever comes second has nothing to reuse
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
