"""Weigh a block's values in torch: softmax of the scores, times the values.

    attend          the formula without in-place operations, for gradients
    attend_into     weights written to final memory, for heads that taps need
    attend_output   torch's fused kernel, for the other heads

`attend_into` and `attend_output` give the same numbers as `attncli.attention.attend` with `formula_of`. Tests and
`attncli compare` check that the three are equal.
"""

from collections.abc import Iterable, Iterator
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention import attend
from attncli.attention.attend import check_shapes
from attncli.attention.normalisers import Normaliser, masked_softmax
from attncli.attention.scores import ScoreFunction
from attncli.models.block import Block
from attncli.models.taps import query_steps


def attend_output(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Return the output of `attend` with the scaled dot product, without weights, from torch's fused kernel.

    Same shapes and rules as `attend`. scale: of the dot product, by default 1 / sqrt(d_k). Returns `[..., query, d_v]`.
    """
    check_shapes(key, value, mask)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scale)
    mask = mask[(None,) * (2 - mask.dim())]  # some of torch's kernels require two dimensions
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # some of torch's kernels return NaN there


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
    """Compute `attend` with the scaled dot product, write its weights into `weights`, and return the output.

    Same shapes and rules as `attend`, with one leading dimension (the heads). For inference only: gradients are not
    recorded. A map is written once, to its final memory, and multiplied with the values while it is in the processor's
    cache. The dtype of `weights` is used throughout: if it is wider than the queries', only the output is rounded.

    scale: of the dot product, by default 1 / sqrt(d_k). softcap: bounds the scaled scores, c tanh(s / c). terms: added
    afterwards, broadcast to `weights`. sinks: an extra score per head, `[head]`, whose weight is omitted, so that rows
    sum to less than 1.
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
    """Return the score and the normaliser with which `attend` computes the same as `attend_into`.

    Nothing is changed in place, so gradients are recorded.
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
    """Return the dtype of maps of these vectors: their own, but on a CPU at least the float32 of records.

    Float32 rounds less and avoids a copy. On CPUs without half-precision instructions it is several times as fast.
    """
    halves = like.device.type == "cpu" and like.dtype.itemsize < torch.float32.itemsize
    return torch.float32 if halves else like.dtype


CACHED = 2**20  # weights that stay in a processor's cache until they are multiplied with the values
MASKED = 2**25  # maximum cells of a mask passed to a fused kernel


def weigh(
    part: Block, out: Tensor | None = None, differentiable: bool = False, need_weights: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Compute outputs `[text, head, query, head_dim]` and weights `[text, head, query, key]` of a part.

    out: memory for the weights; by default new memory. differentiable: avoid in-place operations even if no input has a
    gradient. need_weights: return the weights; else return None for them.
    """
    plain = part.positional is None and part.softcap is None and part.sinks is None
    if plain and not need_weights and not differentiable and part.is_causal:
        return F.scaled_dot_product_attention(part.query, part.key, part.value, is_causal=True, scale=part.scale), None
    query, key, value = part.query, part.key, part.value
    if plain and not need_weights and not differentiable:
        steps = (part.some_queries(queries) for queries in query_steps(query.shape[2], key.shape[2], MASKED))
        made = [attend_output(some.query, key, value, some.allowed(), part.scale) for some in steps]
        return made[0] if len(made) == 1 else torch.cat(made, dim=2), None
    if differentiable or (torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))):
        score, normalise = formula_of(part.scale, part.terms().values(), part.softcap, _sinks_of(part))
        result = attend(query, key, value, part.allowed(), score, normalise)
        return result.output, (result.weights if out is None else out.copy_(result.weights)) if need_weights else None
    if out is None and need_weights:
        out = query.new_empty(*query.shape[:3], key.shape[2], dtype=map_dtype(query))
    output: Tensor | None = None
    for where, some, weights in cached(part, out):
        sinks = _sinks_of(some)
        mask, terms = some.allowed(), some.terms().values()
        of_some = attend_into(weights, some.query, some.key, some.value, mask, some.scale, terms, some.softcap, sinks)
        if len(of_some) == len(query) and of_some.shape[1:3] == query.shape[1:3]:  # the only piece
            output = of_some
            continue
        if output is None:
            output = of_some.new_empty(*query.shape[:3], of_some.shape[-1])
        output[where] = of_some
    assert output is not None
    return output, out


_Piece = tuple[slice, slice, slice]  # texts, heads and queries


def cached(part: Block, out: Tensor | None) -> Iterator[tuple[_Piece, Block, Tensor]]:
    """Divide a part into pieces that fit a CPU's cache. Yield the place of each, the piece, and memory for its weights.

    The memory is in `out` if that is contiguous. Otherwise it is reused, and copied to `out` if there is one.
    """
    dtype = map_dtype(part.query) if out is None else out.dtype
    scratch: Tensor | None = None
    for where in pieces(part):
        texts, heads, queries = where
        some = part.some_texts(texts).only(heads).some_queries(queries)
        place = None if out is None else out[where]
        if place is not None and place.is_contiguous():
            yield where, some, place
            continue
        shape = (*some.query.shape[:3], part.key.shape[2])
        if scratch is None or scratch.shape != shape:
            scratch = part.query.new_empty(shape, dtype=dtype)
        yield where, some, scratch
        if place is not None:
            place.copy_(scratch)


def pieces(part: Block) -> Iterator[_Piece]:
    """Divide a part on a CPU into as many texts as fit the cache; if one map is larger, into heads and queries."""
    every, (texts, heads, queries) = slice(None), part.query.shape[:3]
    keys = max(part.key.shape[2], 1)
    if part.query.device.type != "cpu":
        yield every, every, every
    elif queries * keys <= CACHED:
        together = max(1, CACHED // max(heads * queries * keys, 1))
        for start in range(0, texts, together):
            yield slice(start, start + together), every, every
    else:
        together = max(1, CACHED // keys)
        for text, head, start in product(range(texts), range(heads), range(0, queries, together)):
            yield slice(text, text + 1), slice(head, head + 1), slice(start, start + together)


def _sinks_of(block: Block) -> Tensor | None:
    """Return the sinks of a block's heads, `[head]`; None if there are none."""
    return None if block.sinks is None else block.sinks[list(block.numbers)]
