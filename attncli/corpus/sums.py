"""The sums over the queries of some windows: what is added up of weights while they are there."""

from typing import NamedTuple

import torch
from torch import Tensor

LEAST = 1e-37  # stands for a weight of 0, which has no logarithm


class Counted(NamedTuple):
    """Some queries of a run, the keys that they may see, and what their weights count for.

    factors: what weights are multiplied with (`attncli.analysis.statistics.factors`), `[window, figure, query, key]`.
    counts: whether a query counts, bool `[window, 1, query]`.
    """

    queries: slice
    keys: slice
    factors: Tensor
    counts: Tensor


def divide_rows(norms: Tensor) -> None:
    """Each row `[..., key]` by its sum, in place; a row of zeros stays one."""
    norms.div_(norms.sum(dim=-1, keepdim=True).clamp_min_(torch.finfo(norms.dtype).tiny))


def reduced(weights: Tensor, logarithms: Tensor, factors: Tensor, counts: Tensor) -> Tensor:
    """The figures' sums over a block of queries: `[window, head, figure]`, in the order of FIGURES.

    weights `[window, head, query, key]`, and room for their logarithms; factors `[window, figure, query, key]` and
    counts `[window, 1, query]` as in a Counted.
    """
    if weights.dtype.itemsize < 4:  # half a precision is not enough to add up in
        weights, logarithms = weights.float(), logarithms.float()
    torch.clamp_min(weights, LEAST, out=logarithms)
    entropy = -logarithms.log_().mul_(weights).sum(-1)  # [window, head, query]
    strongest = weights.amax(-1)
    rest = weighted_sums(weights.flatten(2), factors.flatten(2).transpose(1, 2).to(weights.dtype))
    return torch.cat([(entropy * counts).sum(-1, True), (strongest * counts).sum(-1, True), rest], dim=-1)


def weighted_sums(weights: Tensor, factors: Tensor) -> Tensor:
    """`[window, head, query x key]` x `[window, query x key, figure]` -> `[window, head, figure]`.

    Cores share a batch of products, not a single one with long rows: heads of a single window are two batches.
    """
    windows, heads, length = weights.shape
    if windows > 1 or heads % 2:
        return weights @ factors
    return (weights.view(2, heads // 2, length) @ factors).view(1, heads, -1)
