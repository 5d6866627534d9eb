"""Attention itself: scores -> mask -> normalise -> weighted sum of the values, as the tutorials write it."""

from typing import NamedTuple

import torch
from torch import Tensor

from attncli.attention.normalisers import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction, scaled_dot


class Attention(NamedTuple):
    """The results of attention: output `[..., query, d_v]`; weights and scores `[..., query, key]`."""

    output: Tensor
    weights: Tensor
    scores: Tensor


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    score: ScoreFunction = scaled_dot,
    normalise: Normaliser = masked_softmax,
) -> Attention:
    """Attention(Q, K, V) = softmax(s(Q, K)) V   (Vaswani et al. 2017, equation 1).

    query `[..., query, d_k]`, key `[..., key, d_k]`, value `[..., key, d_v]`; the leading dimensions
    broadcast. `mask` is boolean, broadcasts to `[..., query, key]`, True where a query may attend.

    A row of weights sums to 1, unless the mask hides every key: then its weights and output are 0.
    (Tutorials that fill such a row with -inf get NaN from softmax. Those that add -1e9 give all forbidden keys nonzero
    weights.) `scores` are the results of the scoring function, before the mask.

    Raises ValueError if key and value differ in length, or a mask is not boolean.
    """
    check_shapes(key, value, mask)
    scores = score(query, key)  # [..., query, key]
    weights = normalise(scores, mask)  # [..., query, key]
    output = weights @ value  # [..., query, key] x [..., key, d_v] -> [..., query, d_v]
    return Attention(output, weights, scores)


def check_shapes(key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raises ValueError if key and value differ in length, or the mask is not boolean."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"every key needs a value: {key.shape[-2]} keys, {value.shape[-2]} values")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean (True = may attend), not {mask.dtype}")
