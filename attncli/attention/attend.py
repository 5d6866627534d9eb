"""Attention itself: scores -> mask -> normalise -> weighted sum of the values.

`attend` is the formula as the tutorials write it. `attend_output` gives its output alone, through torch's
fused kernel, for when nobody asks for the weights. `attend_into` writes the weights into storage that the
caller owns, for when many maps are kept. Tests hold the three to be the same thing.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.normalise import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction, scaled_dot


class Attention(NamedTuple):
    """What attention gives: output `[..., query, d_v]`; weights and scores `[..., query, key]`.

    `weights` and `scores` are None where nobody asked for them.
    """

    output: Tensor
    weights: Tensor | None
    scores: Tensor | None


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
    broadcast. `mask` is boolean, broadcasts to `[..., query, key]`, True where a query may look.

    A row of weights sums to 1, save one in which nothing may be attended to: its weights and its output
    are 0. (Where the tutorials fill such a row with -inf, softmax gives NaN; where they add -1e9, it
    gives equal weights to everything that is forbidden.) `scores` are what the scoring function gave,
    before the mask.

    Raises ValueError when key and value differ in length, or a mask is not boolean.
    """
    check_shapes(key, value, mask)
    scores = score(query, key)  # [..., query, key]
    weights = normalise(scores, mask)  # [..., query, key]
    output = weights @ value  # [..., query, key] x [..., key, d_v] -> [..., query, d_v]
    return Attention(output, weights, scores)


def attend_output(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """The output of `attend` with the scaled dot product, and no weights: torch's fused kernel.

    Same shapes and rules as `attend`. Returns `[..., query, d_v]`.
    """
    check_shapes(key, value, mask)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value)
    mask = mask[(None,) * (2 - mask.dim())]  # some of torch's kernels take no fewer dimensions
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # some of torch's kernels leave NaN there


def attend_into(weights: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """`attend` with the scaled dot product, its weights written into `weights`; returns the output.

    Same shapes and rules as `attend`, with one leading dimension (the heads). For inference only: nothing
    is recorded for gradients. A map is written once, where it will stay, and multiplied with the values
    while it is still in the processor's cache.
    """
    check_shapes(key, value, mask)
    torch.matmul(query / query.shape[-1] ** 0.5, key.transpose(-2, -1), out=weights)
    if mask is not None:
        weights.masked_fill_(~mask, -torch.inf)
    torch.softmax(weights, dim=-1, out=weights)
    if mask is not None:
        weights.masked_fill_(~mask, 0.0)
    return weights @ value


def check_shapes(key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raises ValueError when key and value differ in length, or the mask is not boolean."""
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"every key needs a value: {key.shape[-2]} keys, {value.shape[-2]} values")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean (True = may attend), not {mask.dtype}")
