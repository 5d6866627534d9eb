"""One vector of a text's: sentence-transformers' poolings, by its names for them.

Each takes the vectors of the real tokens, `[token, size]`, and gives `[size]`; [PAD] counts in none.
"""

from collections.abc import Callable

import torch
from torch import Tensor

CLS, MEAN, LAST = "cls", "mean", "lasttoken"


def weighted_mean(vectors: Tensor) -> Tensor:
    """Σ i x_i / Σ i, tokens counted from 1 (Muennighoff 2022, equation 2)."""
    weights = torch.arange(1, len(vectors) + 1, dtype=vectors.dtype, device=vectors.device)
    return weights @ vectors / weights.sum()


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    CLS: lambda vectors: vectors[0],
    "max": lambda vectors: vectors.max(dim=0).values,
    MEAN: lambda vectors: vectors.mean(dim=0),
    "mean_sqrt_len_tokens": lambda vectors: vectors.sum(dim=0) / len(vectors) ** 0.5,
    "weightedmean": weighted_mean,
    LAST: lambda vectors: vectors[-1],
}
