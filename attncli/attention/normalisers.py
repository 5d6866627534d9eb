"""Normalisers: turn scores into weights.

Soft attention weights every key, sparse attention gives some keys exactly 0, hard attention gives one key everything.
Each normaliser maps scores `[..., query, key]` and a mask that broadcasts to them (boolean, True = may attend; None
hides nothing) to weights of their shape. A key that the mask hides has weight 0. Add new ones here and to
`NORMALISERS`.

A row sums to 1, or is 0 if the mask hides every key. Two normalisers differ: a row of `relu_norm` is also 0 if no score
is positive, and a row of `sigmoid` may have any sum.
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
    return _only_allowed(hidden.argmax(dim=-1), scores, mask)


def hard_sample(scores: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
    """Put all weight on one key, drawn with the probabilities of `masked_softmax` (Xu et al. 2015, section 4.1).

    Its expectation is soft attention. Pass a seeded `generator` for reproducible draws.
    """
    probabilities = masked_softmax(scores, mask)
    nothing = probabilities.sum(dim=-1, keepdim=True) == 0  # rows without visible keys draw from all keys
    rows = (probabilities + nothing).flatten(0, -2).float()  # [rows, key]
    drawn = torch.multinomial(rows, 1, generator=generator).reshape(scores.shape[:-1])
    return _only_allowed(drawn, scores, mask)


def _only_allowed(chosen: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return weights of 1 at the chosen key of each query, `chosen` `[..., query]`, and 0 at forbidden keys."""
    weights = F.one_hot(chosen, scores.shape[-1]).to(scores.dtype)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return w_ij = max(s_ij - τ_i, 0), with the threshold τ_i that makes row i sum to 1.

    This is the distribution nearest to the scores: argmin_p |p - s|² (Martins and Astudillo 2016, equation 2). A row
    keeps its k highest scores s_(1) ≥ s_(2) ≥ ..., with the largest k for which 1 + k s_(k) > Σ_{j ≤ k} s_(j)
    (algorithm 1). Gradient: ∂w/∂s = diag(1_S) - 1_S 1_Sᵀ / k, where S are the keys that are kept.
    """
    shown = _below_highest(scores, mask)
    ordered = shown.sort(dim=-1, descending=True).values
    sizes = torch.arange(1, shown.shape[-1] + 1, device=shown.device)
    size = (1 + sizes * ordered > ordered.cumsum(dim=-1)).sum(dim=-1, keepdim=True).clamp(min=1)
    kept = shown >= ordered.gather(-1, size - 1)
    threshold = (shown.masked_fill(~kept, 0.0).sum(dim=-1, keepdim=True) - 1) / size
    return _only_shown((shown - threshold).masked_fill(~kept, 0.0), scores, mask)


def entmax15(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return w_ij = max(s_ij / 2 - τ_i, 0)², with the threshold τ_i that makes row i sum to 1: entmax for α = 1.5.

    It maximises p·s + 4/3 (1 - Σ p^1.5) over distributions p, and lies between softmax (α = 1) and `sparsemax` (α = 2)
    (Peters et al. 2019, section 3). A row keeps its k highest halved scores z, with the largest k for which τ ≤ z_(k),
    τ = mean - √((1 - k var) / k) of those k. Gradient: ∂w/∂s = diag(g) - g gᵀ / Σ g, where g = √w.
    """
    shown = _below_highest(scores, mask)
    halved = shown / 2
    ordered = halved.detach().sort(dim=-1, descending=True).values
    sizes = torch.arange(1, halved.shape[-1] + 1, device=halved.device, dtype=halved.dtype)
    means, squares = ordered.cumsum(dim=-1) / sizes, ordered.square().cumsum(dim=-1) / sizes
    thresholds = means - (1 / sizes - squares + means.square()).clamp(min=0).sqrt()
    size = (thresholds <= ordered).sum(dim=-1, keepdim=True).clamp(min=1)
    kept = halved >= ordered.gather(-1, size - 1)
    mean = halved.masked_fill(~kept, 0.0).sum(dim=-1, keepdim=True) / size
    variance = (halved - mean).masked_fill(~kept, 0.0).square().sum(dim=-1, keepdim=True) / size
    threshold = mean - ((1 - size * variance) / size).sqrt()
    return _only_shown((halved - threshold).masked_fill(~kept, 0.0).square(), scores, mask)


def relu_norm(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return w_ij = max(s_ij, 0) / Σ_l max(s_il, 0), the sum over the keys l that query i may attend to.

    Rectified linear attention (Zhang et al. 2021, section 3) has only the numerator, and normalises the output with
    RMSNorm. The division here changes nothing under that norm, and makes rows sum to 1. A row without a positive score
    is 0. Unlike softmax, the weights change if a constant is added to all scores. Gradient at positive scores:
    ∂w_i/∂s_j = (δ_ij - w_i) / Σ_l max(s_l, 0); at others 0.
    """
    positive = F.relu(scores if mask is None else scores.masked_fill(~mask, 0.0))
    total = positive.sum(dim=-1, keepdim=True)
    return positive / total.masked_fill(total == 0, 1.0)


def sigmoid(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return w_ij = 1 / (1 + exp(-(s_ij - log n_i))), n_i the number of keys that query i may attend to.

    Every key is weighed separately, so a row may have any sum. The bias -log n makes it about 1 for scores near 0
    (Ramapuram et al. 2024, section 2, where n is the length of the text). Gradient: ∂w_ij/∂s_ij = w_ij (1 - w_ij).
    """
    shown = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    keys = shown.expand_as(scores).sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.sigmoid(scores - keys.log().to(scores.dtype)).masked_fill(~shown, 0.0)


def _below_highest(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return each score minus the highest of its row, in float32 or better; -inf if hidden.

    Subtracting a constant from a row changes no weight and keeps small differences of large scores.
    """
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    shown = wide if mask is None else wide.masked_fill(~mask, -torch.inf)
    highest = shown.detach().amax(dim=-1, keepdim=True)
    return shown - highest.clamp(min=torch.finfo(wide.dtype).min)  # a row of only -inf stays as it is


def _only_shown(weights: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return weights in the dtype of the scores, 0 where the mask hides the key."""
    return (weights if mask is None else weights.masked_fill(~mask, 0.0)).to(scores.dtype)


NORMALISERS: dict[str, Normaliser] = {
    "softmax": masked_softmax,
    "entmax15": entmax15,
    "sparsemax": sparsemax,
    "relu_norm": relu_norm,
    "sigmoid": sigmoid,
    "hard_max": hard_max,
    "hard_sample": hard_sample,
}
