"""The cost of additive and of dot-product scores: operations counted, and time measured, for growing texts and vectors.

    projections of queries and keys     4 n d²        of both: W_Q and W_K, or W and U
    q · k                               2 n² d        a product and a sum for each element
    vᵀ tanh(W q + U k)                  4 n² d        a sum, a tanh, a product and a sum for each element

(Vaswani et al. 2017, section 3.2.1: "similar in theoretical complexity", and dot products "much faster".)
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import nn

from attncli.attention import Additive, dot
from attncli.checks.machine import median_seconds, one_thread

TOKENS = (4, 16, 64, 256)  # with vectors of SIZE
SIZES = (4, 16, 64, 256)  # with a text of LENGTH
SIZE, LENGTH = 64, 128
ROUNDS = 9


class Cost(NamedTuple):
    """The cost of the scores of one head: of a text of n tokens with itself, with vectors of d elements."""

    tokens: int
    size: int
    dot_operations: int
    additive_operations: int
    dot_seconds: float
    additive_seconds: float

    @property
    def operations_ratio(self) -> float:
        """Return additive / dot."""
        return self.additive_operations / self.dot_operations

    @property
    def seconds_ratio(self) -> float:
        """Return additive / dot."""
        return self.additive_seconds / self.dot_seconds


def costs(tokens: int, size: int) -> list[list[Cost]]:
    """Return the costs at the size of a head, then for growing texts, and for growing vectors."""
    with one_thread():
        series = [[(tokens, size)], [(n, SIZE) for n in TOKENS], [(LENGTH, d) for d in SIZES]]
        return [[measure_cost(n, d) for n, d in some] for some in series]


def measure_cost(tokens: int, size: int) -> Cost:
    """Count the operations of both scores, and take the median time of ROUNDS."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        x = torch.randn(tokens, size)
        additive = Additive(size)
        to_query, to_key = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        runs = {"dot": lambda: dot(to_query(x), to_key(x)), "additive": lambda: additive(x, x)}
        for run in runs.values():
            run()  # the first one takes longer
        seconds = median_seconds(runs, ROUNDS, x.device, lambda: None)
    return Cost(tokens, size, *count_operations(tokens, size), seconds["dot"], seconds["additive"])


def count_operations(tokens: int, size: int) -> tuple[int, int]:
    """Return the operations of dot products and of additive scores, with the projections of queries and keys."""
    projections, pairs = 4 * tokens * size**2, tokens**2 * size
    return projections + 2 * pairs, projections + 4 * pairs


def crossover(series: Sequence[Cost]) -> Cost | None:
    """Return the first of a series from which on additive scores take longer than their operations alone explain."""
    slower = list(takewhile(lambda one: one.seconds_ratio > one.operations_ratio, reversed(series)))
    return slower[-1] if slower else None
