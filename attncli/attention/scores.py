"""Scoring functions s(q, k): how well each key fits each query.

Every scoring function maps query `[..., query, d_k]` and key `[..., key, d_k]` to scores `[..., query, key]`; the
leading dimensions broadcast. Some are functions; those with parameters are modules, called in the same way. Add new
ones here and to `SCORES`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ScoreFunction = Callable[[Tensor, Tensor], Tensor]


def dot(query: Tensor, key: Tensor) -> Tensor:
    """s(q, k) = q · k   (Luong et al. 2015, "dot", section 3.1).

    Its variance grows with d_k: for independent components of variance 1 it is d_k (Vaswani et al. 2017, footnote 4).
    """
    return query @ key.transpose(-2, -1)  # [..., query, d_k] x [..., d_k, key] -> [..., query, key]


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """s(q, k) = q · k / √d_k   (Vaswani et al. 2017, equation 1).

    The query is divided instead of the scores: the result is the same, but only d_k columns are divided.
    """
    return dot(query / query.shape[-1] ** 0.5, key)


class Additive(nn.Module):
    """s(q, k) = vᵀ tanh(W q + U k)   (Bahdanau et al. 2015, appendix A.1.2, also without biases).

    query is W, key is U, energy is v. `d_hidden` is the number of hidden units, d_k by default. Queries and
    keys may differ in size.
    """

    def __init__(self, d_k: int, d_query: int | None = None, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = d_k if d_hidden is None else d_hidden
        self.query = nn.Linear(d_k if d_query is None else d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_k, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        # Every query meets every key: [..., query, 1, d_hidden] + [..., 1, key, d_hidden]
        hidden = torch.tanh(self.query(query)[..., :, None, :] + self.key(key)[..., None, :, :])
        scores: Tensor = self.energy(hidden)[..., 0]  # [..., query, key]
        return scores


class Bilinear(nn.Module):
    """s(q, k) = qᵀ W k   (Luong et al. 2015, "general", section 3.1).

    weight is W, `[d_query, d_k]`. With W = I it is `dot`; with W = W_Qᵀ W_K on a layer's inputs it is the score
    that a head of a Transformer computes, before the division.
    """

    def __init__(self, d_k: int, d_query: int | None = None) -> None:
        super().__init__()
        d_query = d_k if d_query is None else d_query
        self.weight = nn.Parameter(torch.empty(d_query, d_k))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return dot(query @ self.weight, key)


class Concat(nn.Module):
    """s(q, k) = vᵀ tanh(W [q; k])   (Luong et al. 2015, "concat", section 3.1).

    hidden is W, energy is v. Equivalent to `Additive` with its W and U concatenated in this W, but written as
    in its paper: query and key are concatenated first.
    """

    def __init__(self, d_k: int, d_query: int | None = None, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = d_k if d_hidden is None else d_hidden
        self.hidden = nn.Linear((d_k if d_query is None else d_query) + d_k, d_hidden, bias=False)
        self.energy = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        pairs = (*leading, query.shape[-2], key.shape[-2])
        both = torch.cat(
            [
                query[..., :, None, :].expand(*pairs, query.shape[-1]),
                key[..., None, :, :].expand(*pairs, key.shape[-1]),
            ],
            dim=-1,
        )  # [..., query, key, d_query + d_k]
        scores: Tensor = self.energy(torch.tanh(self.hidden(both)))[..., 0]
        return scores


class Location(nn.Module):
    """s(q, k_j) = (W q)_j   (Luong et al. 2015, equation 8, "location").

    Only the key's position matters, not its content. weight is W, `[positions, d_k]`.

    Raises ValueError if there are more keys than positions.
    """

    def __init__(self, d_k: int, positions: int = 512) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(positions, d_k))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        keys = key.shape[-2]
        if keys > len(self.weight):
            raise ValueError(f"{keys} keys, but scores were learned for {len(self.weight)} positions")
        leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        return dot(query, self.weight[:keys]).expand(*leading, -1, -1)


class ContentBased(nn.Module):
    """s(q, k) = β (q · k) / (|q| |k|)   (Graves et al. 2014, equations 5 and 6): content-based addressing.

    The cosine is at most 1, so its softmax alone is nearly uniform. The key strength β > 0 sharpens it. In the paper a
    controller emits β; here it is learned: β = softplus(strength), initially 1. A vector of length 0 scores 0. In a
    Transformer this is the QK norm of Henry et al. 2020 (section 3), whose g is β. d_k is ignored.
    """

    def __init__(self, d_k: int | None = None) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(1.0).expm1().log())  # softplus(log(e - 1)) = 1

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return F.softplus(self.strength) * dot(F.normalize(query, dim=-1), F.normalize(key, dim=-1))


class QueryKeyNorm(nn.Module):
    """s(q, k) = score(norm_q(q), norm_k(k)): QK norm (Dehghani et al. 2023, section 2, with LayerNorm).

    However long queries and keys grow in training, the scaled dot product of normed vectors is at most √d_k times both
    gains. So softmax does not saturate. (Henry et al. 2020, who introduced it, divide by the length and learn one
    scale, as in `ContentBased`.)

    `norm` builds a norm of d_k elements, by default without biases, as in the paper; later decoders use `RMSNorm`.
    query_norm and key_norm are shared by all heads. `score` is applied to the normed vectors, for example after a
    rotation.
    """

    def __init__(
        self,
        d_k: int,
        norm: Callable[[int], nn.Module] = lambda d_k: nn.LayerNorm(d_k, bias=False),
        score: ScoreFunction = scaled_dot,
    ) -> None:
        super().__init__()
        self.query_norm = norm(d_k)
        self.key_norm = norm(d_k)
        self.score = score

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.score(self.query_norm(query), self.key_norm(key))


# Builders of scoring functions, by name. Each takes d_k, the size of queries and keys.
SCORES: dict[str, Callable[[int], ScoreFunction]] = {
    "dot": lambda d_k: dot,
    "scaled_dot": lambda d_k: scaled_dot,
    "additive": Additive,
    "bilinear": Bilinear,
    "concat": Concat,
    "location": Location,
    "content": ContentBased,
    "qk_norm": QueryKeyNorm,
}
