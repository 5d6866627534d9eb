"""Timing: turns, medians, and a product that is what its operations say."""

import statistics
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from attncli.checks import timing
from attncli.checks.timing import median_seconds, product_flops, product_seconds
from attncli.models import network as linear

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


def test_the_product_has_the_operations_that_it_says_and_is_timed_both_ways(monkeypatch):
    monkeypatch.setattr(timing, "PRODUCT", (8, 12, 20))
    monkeypatch.setattr(linear, "ONEDNN_LINEAR", None)  # torch's counter does not know that operator
    with FlopCounterMode(display=False) as counter:
        taken = product_seconds(CPU)
    ways = {name: len(seconds) for name, seconds in taken.items()}
    assert ways == dict.fromkeys(("torch.mm", "attncli"), timing.PRODUCT_REPEATS)
    assert counter.get_total_flops() == 2 * (timing.PRODUCT_REPEATS + 1) * product_flops()
    assert all(second > 0 for seconds in taken.values() for second in seconds)
