"""Scoring functions s(q, k): how well each key fits each query.

Every scoring function maps query `[..., query, d_k]` and key `[..., key, d_k]` to scores
`[..., query, key]`; the leading dimensions broadcast. A new one is written here and entered in `SCORES`.
"""

from collections.abc import Callable

from torch import Tensor

ScoreFunction = Callable[[Tensor, Tensor], Tensor]


def dot(query: Tensor, key: Tensor) -> Tensor:
    """s(q, k) = q · k   (Luong et al. 2015, "dot", section 3.1).

    Its variance grows with d_k: for components of variance 1 it is d_k (Vaswani et al. 2017, footnote 4).
    """
    return query @ key.transpose(-2, -1)  # [..., query, d_k] x [..., d_k, key] -> [..., query, key]


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """s(q, k) = q · k / √d_k   (Vaswani et al. 2017, equation 1).

    The query is divided rather than the scores: the same number, and d_k columns to divide instead of as
    many as there are keys.
    """
    return dot(query / query.shape[-1] ** 0.5, key)


SCORES: dict[str, ScoreFunction] = {"dot": dot, "scaled_dot": scaled_dot}
