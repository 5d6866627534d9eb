"""Normalisers: from scores to weights. Soft attention looks at everything a little, hard attention at one key.

Every normaliser maps scores `[..., query, key]` and a mask that broadcasts to them (boolean, True = may attend; None
hides nothing) to weights of the same shape. A row sums to 1, save one in which nothing may be attended to: it is 0.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Normaliser = Callable[[Tensor, Tensor | None], Tensor]


def masked_softmax(scores: Tensor, mask: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """w_ij = exp(s_ij / T) / Σ_l exp(s_il / T), the sum over the keys l that query i may attend to; elsewhere 0.

    The lower the temperature T, the harder the attention: towards 0 it becomes `hard_max`, for large T uniform
    (Hinton et al. 2015, equation 1). Half-precision scores are exponentiated in float32, as BERT's published code
    does.

    Raises ValueError when the temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"a temperature is positive, not {temperature}: hard_max is what it would lead to at 0")
    wide = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    warm = scores if temperature == 1 else scores / temperature
    if mask is None:
        return torch.softmax(warm, dim=-1, dtype=wide).to(scores.dtype)
    weights = torch.softmax(warm.masked_fill(~mask, -torch.inf), dim=-1, dtype=wide)
    return weights.masked_fill(~mask, 0.0).to(scores.dtype)  # a row of -inf alone is NaN until here


def hard_max(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """All weight on the key with the highest score, the first of several (Xu et al. 2015, section 4, at its mode).

    No gradient reaches the scores: which key is chosen does not change when they change a little.
    """
    hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return only_allowed(hidden.argmax(dim=-1), scores, mask)


def hard_sample(scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """All weight on one key, drawn with the probabilities of `masked_softmax` (Xu et al. 2015, section 4.1).

    Its expectation is soft attention. Give a seeded `generator` to draw the same again.
    """
    probabilities = masked_softmax(scores, mask)
    nothing = probabilities.sum(dim=-1, keepdim=True) == 0  # where nothing may be attended to, draw from anything
    rows = (probabilities + nothing).flatten(0, -2).float()  # [rows, key]
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(scores.shape[:-1])
    return only_allowed(drawn, scores, mask)


def only_allowed(chosen: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Weights that are 1 at the chosen key of each query, `chosen` `[..., query]`, and 0 where it may not look."""
    weights = F.one_hot(chosen, scores.shape[-1]).to(scores.dtype)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


NORMALISERS: dict[str, Normaliser] = {"softmax": masked_softmax, "hard_max": hard_max, "hard_sample": hard_sample}
