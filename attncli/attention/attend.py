"""Attention itself: scores -> mask -> normalise -> weighted sum of the values, as the tutorials write it.

Normalisers turn scores into weights. Soft attention weights every key, hard attention only one. Each maps scores
`[..., query, key]` and a mask that broadcasts to them (boolean, True = may attend; None hides nothing) to weights of
their shape. A row sums to 1, or is 0 if nothing may be attended to.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.scores import ScoreFunction, scaled_dot

Normaliser = Callable[[Tensor, Tensor | None], Tensor]


def masked_softmax(scores: Tensor, mask: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """Return w_ij = exp(s_ij / T) / Σ_l exp(s_il / T), the sum over the keys l that query i may attend to; elsewhere 0.

    The lower the temperature T, the harder the attention: towards 0 it becomes `hard_max`, for large T uniform
    (Hinton et al. 2015, equation 1). Half-precision scores are exponentiated in float32, as BERT's published code
    does.

    Raises ValueError if the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"a temperature must be positive, not {temperature}: use hard_max for the limit at 0")
    wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    warm = scores if temperature == 1 else scores / temperature
    if mask is None:
        return torch.softmax(warm, dim=-1, dtype=wide).to(scores.dtype)
    weights = torch.softmax(warm.masked_fill(~mask, -torch.inf), dim=-1, dtype=wide)
    return weights.masked_fill(~mask, 0.0).to(scores.dtype)  # replaces NaN in rows of only -inf


def hard_max(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Put all weight on the key with the highest score, the first of several (Xu et al. 2015, section 4, at its mode).

    No gradient reaches the scores, since a small change of them does not change the selected key.
    """
    hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return _only_allowed(hidden.argmax(dim=-1), scores, mask)


def hard_sample(scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Put all weight on one key, drawn with the probabilities of `masked_softmax` (Xu et al. 2015, section 4.1).

    Its expectation is soft attention. Pass a seeded `generator` for reproducible draws.
    """
    probabilities = masked_softmax(scores, mask)
    nothing = probabilities.sum(dim=-1, keepdim=True) == 0  # rows where nothing may be attended to draw from all keys
    rows = (probabilities + nothing).flatten(0, -2).float()  # [rows, key]
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(scores.shape[:-1])
    return _only_allowed(drawn, scores, mask)


def _only_allowed(chosen: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return weights of 1 at the chosen key of each query, `chosen` `[..., query]`, and 0 at forbidden keys."""
    weights = F.one_hot(chosen, scores.shape[-1]).to(scores.dtype)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


NORMALISERS: dict[str, Normaliser] = {"softmax": masked_softmax, "hard_max": hard_max, "hard_sample": hard_sample}


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

    A row of weights sums to 1, unless nothing may be attended to: then its weights and output are 0.
    (Tutorials that fill such a row with -inf get NaN from softmax. Those that add -1e9 get equal weights
    for all forbidden keys.) `scores` are the results of the scoring function, before the mask.

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
