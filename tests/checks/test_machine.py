"""Time on this machine."""

import statistics
import time

import torch
from measuring import median_seconds


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
    runs = {name: lambda name=name: run(name) for name in durations}
    medians = median_seconds(runs, 3, torch.device("cpu"))
    assert medians == {name: statistics.median(taken) for name, taken in durations.items()}
    assert order == ["slow", "even", "even", "slow", "slow", "even"]
