"""The costs of scores: counted operations are those that torch is asked for; the verdict follows from the figures."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attncli.attention import Additive, dot
from attncli.features import mechanisms as feature
from attncli.features.mechanisms.claims import COST_TOKENS, SIZE, Cost, costs, count_operations, crossover


class Counted(TorchDispatchMode):
    """Counts a product and a sum for each element of a matrix product, and an operation for each element of others."""

    operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in ("mm", "bmm"):
            self.operations += 2 * args[0].numel() * args[1].shape[-1]
        elif name in ("add", "tanh"):
            self.operations += result.numel()
        else:
            assert name in {"t", "transpose", "view", "_unsafe_view", "slice", "select", "unsqueeze", "alias", "expand"}
        return result


@pytest.mark.parametrize(("tokens", "size"), [(1, 1), (5, 3), (7, 16)])
def test_operations_are_counted_as_torch_does_them(tokens, size):
    x, first, second = torch.randn(tokens, size), torch.randn(size, size), torch.randn(size, size)
    additive = Additive(size)
    counted = []
    for run in (lambda: dot(x @ first, x @ second), lambda: additive(x, x)):
        with torch.no_grad(), Counted() as mode:
            run()
        counted.append(mode.operations)
    assert tuple(counted) == count_operations(tokens, size)


def cost(tokens, size, ratio):
    return Cost(tokens, size, *count_operations(tokens, size), 1e-6, ratio * 1e-6)


def test_the_crossover_is_where_time_grows_beyond_operations_for_good():
    fast, slow = 0.9, 5.0
    series = [cost(n, SIZE, ratio) for n, ratio in zip(COST_TOKENS, (slow, fast, slow, slow), strict=True)]
    assert crossover(series) == series[2] and crossover(series[:2]) is None
    assert crossover(series[2:]) == series[2]


@pytest.mark.parametrize(("ratio", "verdict"), [(0.9, "DOES NOT HOLD here"), (9.0, "holds")])
def test_the_verdict_follows_from_the_figures(ratio, verdict):
    series = [
        [cost(9, 32, ratio)],
        [cost(n, SIZE, ratio) for n in COST_TOKENS],
        [cost(128, d, ratio) for d in (4, 256)],
    ]
    verdicts, table, _ = feature.cost_parts(series)
    assert verdicts.rows[0][0].text == verdict
    assert ("from n 4 (d 64) and from d 4 (n 128) on" in verdicts.rows[0][1].text) == (verdict == "holds")
    assert table.rows[0] == ["9", "32", "42,048", "1.12", "1", f"{ratio:.0f}", f"{ratio:.1f}"]


@pytest.mark.slow
def test_every_cost_is_measured_at_the_head_s_size_and_along_both_series(attncli):
    own, *series = costs(6, 8)
    assert [(one.tokens, one.size) for one in own] == [(6, 8)]
    for some in series:
        assert all(math.isfinite(one.seconds_ratio) and one.dot_seconds > 0 for one in some)
        assert all(1 < one.operations_ratio <= 2 for one in some)
    place = ("the cat sat", "-l", "0", "-H", "0")
    assert "operations of dot" in attncli("mechanisms", *place, "--all").out
    assert "operations of dot" not in attncli("mechanisms", *place, "--seed", "1").out
