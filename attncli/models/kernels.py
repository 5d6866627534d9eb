"""The fast forms of attention with the scaled dot product: the same numbers as `attncli.attention.attend`.

`attend_output` gives the output alone, through torch's fused kernel, for when nobody looks at the weights.
`attend_into` writes the weights into storage that the caller owns, for when maps are kept. `formula_of` says how
`attend` computes the same. Tests hold the three to be the same thing, and so does `attncli compare`.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.attend import check_shapes
from attncli.attention.normalise import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction


def attend_output(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """The output of `attend` with the scaled dot product, and no weights: torch's fused kernel.

    Same shapes and rules as `attend`. scale: of the dot product, by default 1 / sqrt(d_k). Returns `[..., query, d_v]`.
    """
    check_shapes(key, value, mask)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scale)
    mask = mask[(None,) * (2 - mask.dim())]  # some of torch's kernels take no fewer dimensions
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # some of torch's kernels leave NaN there


def attend_into(
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    terms: Iterable[Tensor] = (),
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """`attend` with the scaled dot product, its weights written into `weights`; returns the output.

    Same shapes and rules as `attend`, with one leading dimension (the heads). For inference only: nothing
    is recorded for gradients. A map is written once, where it will stay, and multiplied with the values
    while it is still in the processor's cache. It is computed in the dtype of `weights`: where that is wider
    than the queries', nothing between them and the output is rounded to theirs.

    scale: of the dot product, by default 1 / sqrt(d_k). softcap: bounds the scaled scores, c tanh(s / c). terms: what
    is added then, broadcasts to `weights`. sinks: a further score per head, `[head]`, whose weight is left out, so that
    rows sum to less than 1.
    """
    check_shapes(key, value, mask)
    queries, keys, values = (part.to(weights.dtype) for part in (query, key, value))
    scaled = queries / query.shape[-1] ** 0.5 if scale is None else queries * scale
    torch.matmul(scaled, keys.transpose(-2, -1), out=weights)
    if softcap is not None:
        weights.div_(softcap).tanh_().mul_(softcap)
    for term in terms:
        weights += term
    if mask is not None:
        weights.masked_fill_(~mask, -torch.inf)
    if sinks is None:
        torch.softmax(weights, dim=-1, out=weights)
    else:
        sink = sinks.to(weights.dtype)[:, None, None]
        most = torch.maximum(weights.amax(dim=-1, keepdim=True), sink)
        weights.sub_(most).exp_()
        weights.div_(weights.sum(dim=-1, keepdim=True) + (sink - most).exp())
    if mask is not None:
        weights.masked_fill_(~mask, 0.0)
    return (weights @ values).to(query.dtype)


def formula_of(
    scale: float, terms: Iterable[Tensor] = (), softcap: float | None = None, sinks: Tensor | None = None
) -> tuple[ScoreFunction, Normaliser]:
    """Return the score and the normaliser with which `attend` computes what `attend_into` does.

    Nothing is overwritten, so that gradients are recorded.
    """

    def score(q: Tensor, k: Tensor) -> Tensor:
        scores = scale * (q @ k.mT)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        return sum(terms, scores)

    def normalise(scores: Tensor, allowed: Tensor | None) -> Tensor:
        assert sinks is not None
        sink = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]

    return score, masked_softmax if sinks is None else normalise


def map_dtype(like: Tensor) -> torch.dtype:
    """What maps of these vectors are made in: their dtype; on a CPU not less than the float32 that records have.

    Less is rounded then, nothing is copied, and without instructions for half precision it is several times as fast.
    """
    halves = like.device.type == "cpu" and like.dtype.itemsize < torch.float32.itemsize
    return torch.float32 if halves else like.dtype
