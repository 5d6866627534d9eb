"""Normalisers: from scores to weights. Soft attention weights every key, hard attention only one.

Every normaliser maps scores `[..., query, key]` and a mask that broadcasts to them (boolean, True = may attend; None
hides nothing) to weights of the same shape. A row sums to 1, or is 0 if nothing may be attended to.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

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
    return only_allowed(hidden.argmax(dim=-1), scores, mask)


def hard_sample(scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Put all weight on one key, drawn with the probabilities of `masked_softmax` (Xu et al. 2015, section 4.1).

    Its expectation is soft attention. Pass a seeded `generator` for reproducible draws.
    """
    probabilities = masked_softmax(scores, mask)
    nothing = probabilities.sum(dim=-1, keepdim=True) == 0  # rows where nothing may be attended to draw from all keys
    rows = (probabilities + nothing).flatten(0, -2).float()  # [rows, key]
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(scores.shape[:-1])
    return only_allowed(drawn, scores, mask)


def only_allowed(chosen: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return weights of 1 at the chosen key of each query, `chosen` `[..., query]`, and 0 at forbidden keys."""
    weights = F.one_hot(chosen, scores.shape[-1]).to(scores.dtype)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


NORMALISERS: dict[str, Normaliser] = {"softmax": masked_softmax, "hard_max": hard_max, "hard_sample": hard_sample}
