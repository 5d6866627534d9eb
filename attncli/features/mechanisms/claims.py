"""The claims of tutorials and papers on attention, each measured on a real head.

A claim is a function of a head. It returns its statement, the measured numbers, and whether they agree with it. A
trained head need not do what a tutorial says of random vectors. If it does not, the claim is marked as failing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from attncli.analysis.patterns import counted_queries
from attncli.attention import (
    Bilinear,
    MultiHeadAttention,
    attend,
    dot,
    entmax15,
    hard_max,
    hard_sample,
    masked_softmax,
    scaled_dot,
    sparsemax,
)
from attncli.features.mechanisms.head import SAME, mask_of, own_score
from attncli.models.head import OneHead
from attncli.text.tokens import Tokens

SIZES = (4, 16, 64, 256, 1024)  # of random queries and keys
KEYS = (8, 32, 128)  # numbers of keys to test softmax with
DRAWS = 12  # by chance, all agree with a probability of only 1 in 2 ** 11
NEAR = 0.1  # tolerance of a mean variance over all draws: more than three times the random error

_Figures: TypeAlias = dict[str, float]
_Found: TypeAlias = tuple[str, _Figures, bool] | tuple[str, _Figures, bool, str]  # a Claim without its name


@dataclass(frozen=True)
class ClaimTrial:
    """A head to measure claims on. seed: of random vectors."""

    head: OneHead
    seed: int = 0

    @property
    def is_self(self) -> bool:
        """Return whether the keys are of the same text."""
        return self.head.record.key_tokens is None

    @property
    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """The head's queries, keys and values, in float64."""
        query, key, value = (torch.from_numpy(x).double() for x in (self.head.query, self.head.key, self.head.value))
        return query, key, value

    @property
    def counted(self) -> Tensor:
        """The queries that figures are means over, bool `[query]`."""
        record = self.head.record
        return torch.from_numpy(counted_queries(record, record.layers[0]))


@dataclass(frozen=True)
class Claim:
    """A claim, the measured figures, and whether they agree with it.

    finding: what else the numbers show, in words; otherwise empty.
    """

    name: str
    statement: str
    figures: _Figures
    holds: bool
    finding: str = ""


def check_claims(trial: ClaimTrial) -> list[Claim]:
    """Measure every claim that applies to the head."""
    with torch.random.fork_rng(devices=[]):  # modules draw weights that are replaced
        found = {name: measure(trial) for name, measure in CLAIMS.items()}
    return [Claim(name, *one) for name, one in found.items() if one is not None]


# --- the division by √d_k -------------------------------------------------------------------------------


def _variance_on_this_head(trial: ClaimTrial) -> _Found:
    """Measure the variance of q · k over the first d elements of the vectors, each element standardised."""
    query, key, _ = trial.vectors
    record = trial.head.record
    query, key = _standardised(query[_real_tokens(record.tokens)]), _standardised(key[_real_tokens(record.keys)])
    d_k = query.shape[-1]
    sizes = sorted({max(d_k // part, 1) for part in (8, 4, 2, 1)})
    figures = {f"d_k {size}": dot(query[:, :size], key[:, :size]).var().item() for size in sizes}
    holds = len(figures) > 1 and grows(figures.values())
    return "the variance of q·k grows with d_k: on this head", figures, holds


def _standardised(vectors: Tensor) -> Tensor:
    """Give every component mean 0 and variance 1 over the tokens; a constant one becomes 0."""
    centred = vectors - vectors.mean(dim=0)
    return centred / centred.std(dim=0, correction=0).clamp(min=1e-12)


def _division(trial: ClaimTrial) -> _Found:
    """Measure the variance of scores of random vectors: the mean of all draws, as one may be off by a quarter."""
    draws, figures, holds = draw_vectors(trial.seed), _Figures(), True
    for size in SIZES:
        both = [(query[:, :size], key[:, :size]) for query, key in draws]
        plain = mean(dot(query, key).var().item() for query, key in both)
        divided = mean(scaled_dot(query, key).var().item() for query, key in both)
        figures |= {f"d_k {size}, q·k": plain, f"d_k {size}, / √d_k": divided}
        holds = holds and abs(plain / size - 1) < NEAR and abs(divided - 1) < NEAR
    statement = f"for random q and k the variance is d_k, and dividing by √d_k makes it 1 (within {NEAR:.0%})"
    return f"{statement}: mean of {DRAWS} draws", figures, holds


def _saturation_on_this_head(trial: ClaimTrial) -> _Found:
    (query, key, _), mask = trial.vectors, mask_of(trial.head)
    plain, divided = (
        jacobian_norm(masked_softmax(score(query, key), mask)[trial.counted]) for score in (dot, scaled_dot)
    )
    statement = "without the division, softmax saturates and its gradient shrinks: norm of its Jacobian on this head"
    return statement, {"not divided": plain, "divided": divided}, plain < divided


def _saturation(trial: ClaimTrial) -> _Found:
    """Compare the norms of softmax's Jacobian without and with the division by √d_k, as a ratio, for random vectors.

    A row of many keys with small scores is nearly uniform, and also has little gradient. So scores that grow with d_k
    first increase the gradient and later decrease it, from a d_k that grows with the number of keys.
    """
    draws, figures = draw_vectors(trial.seed), _Figures()
    less, more = (
        dict[int, int](),
        dict[int, int](),
    )  # by number of keys: the d_k from which the gradient shrinks, and up to which it grows, in all draws
    for keys in KEYS:
        ratios = {
            size: [
                jacobian_norm(masked_softmax(dot(q, k))) / jacobian_norm(masked_softmax(scaled_dot(q, k)))
                for q, k in ((query[:, :size], key[:keys, :size]) for query, key in draws)
            ]
            for size in SIZES
        }
        for size, found in ratios.items():
            figures |= {f"{keys} keys: d_k {size}, least": min(found), f"{keys} keys: d_k {size}, most": max(found)}
        for size in reversed(SIZES):
            if not max(ratios[size]) < 1:
                break
            less[keys] = size
        for size in SIZES:
            if not min(ratios[size]) > 1:
                break
            more[keys] = size
    holds = list(less) == list(KEYS) and all(few < many for few, many in pairwise(less.values()))
    finding = "; ".join(
        f"{words} " + ", ".join(f"d_k {size} with {keys} keys" for keys, size in some.items())
        for words, some in (("the gradient shrinks from", less), ("it grows up to", more))
        if some
    )
    statement = (
        "without the division, the gradient shrinks for random q and k too, but more keys need a larger d_k: not "
        "divided / divided"
    )
    return f"{statement}, {DRAWS} draws", figures, holds, finding


def draw_vectors(seed: int) -> list[tuple[Tensor, Tensor]]:
    """Draw max(KEYS) random queries and keys of size max(SIZES) and variance 1, DRAWS times."""
    generator = torch.Generator().manual_seed(seed)
    shape = 2, max(KEYS), max(SIZES)
    both = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(DRAWS))
    return [(query, key) for query, key in both]


def jacobian_norm(weights: Tensor) -> float:
    """Return |diag(w) - w wᵀ| (Frobenius) of rows of weights `[query, key]`, mean over the rows.

    Its square is Σ w_i² - 2 Σ w_i³ + (Σ w_i²)².
    """
    squares = weights.square().sum(dim=-1)
    norms = (squares - 2 * weights.pow(3).sum(dim=-1) + squares.square()).clamp(min=0).sqrt()
    return norms.mean().item()


# --- soft, sparse and hard attention ----------------------------------------------------------------------


def _zeros(trial: ClaimTrial) -> _Found:
    query, key, _ = trial.vectors
    visible, scores = mask_of(trial.head)[trial.counted].expand(-1, len(key)), scaled_dot(query, key)[trial.counted]
    figures = {
        name: (normalise(scores, visible)[visible] == 0).double().mean().item()
        for name, normalise in (("softmax", masked_softmax), ("1.5-entmax", entmax15), ("sparsemax", sparsemax))
    }
    holds = figures["softmax"] == 0 < figures["1.5-entmax"] <= figures["sparsemax"]
    statement = "sparsemax and 1.5-entmax give keys a weight of exactly 0, softmax doesn't: share of the visible keys"
    return statement, figures, holds


def _hard_attention(trial: ClaimTrial) -> _Found:
    """Measure the gradients of a loss Σ_i u · output_i, u random. The control: the gradient to the values is not 0."""
    generator = torch.Generator().manual_seed(trial.seed)
    query, key, value = trial.vectors
    mask = mask_of(trial.head)[trial.counted]
    direction = torch.randn(value.shape[-1], generator=generator, dtype=value.dtype)
    scores = scaled_dot(query, key)[trial.counted].requires_grad_()
    value.requires_grad_()

    def lengths(weights: Tensor) -> list[float]:
        loss = (weights @ value @ direction).sum()
        found = torch.autograd.grad(loss, (scores, value), allow_unused=True)
        return [0.0 if gradient is None else gradient.norm().item() for gradient in found]

    soft, _ = lengths(masked_softmax(scores, mask))
    hardest, to_values = lengths(hard_max(scores, mask))
    drawn, _ = lengths(hard_sample(scores, mask, generator))
    figures = {
        "|gradient| to the scores: soft": soft,
        "|gradient| to the scores: hard maximum": hardest,
        "|gradient| to the scores: hard draw": drawn,
        "|gradient| to the values: hard maximum": to_values,
    }
    statement = "hard attention passes no gradient to the scores, soft attention does: lengths of gradients"
    return statement, figures, hardest == drawn == 0 < min(soft, to_values)


# --- projections ----------------------------------------------------------------------------------------


def asymmetry(matrix: Tensor) -> float:
    """Return |S - Sᵀ| / |S| (Frobenius): 0 if symmetric, √2 for unrelated entries."""
    return ((matrix - matrix.T).norm() / matrix.norm().clamp(min=1e-30)).item()


def _asymmetry(trial: ClaimTrial) -> _Found | None:
    """Measure scores and their softmax, without masks, which would make both asymmetric.

    Softmax makes symmetric scores asymmetric, because it divides each row by its own sum. This effect is measured with
    the queries in place of the keys.
    """
    if not trial.is_self:
        return None
    real = _real_tokens(trial.head.record.tokens)
    query, key = (torch.from_numpy(part)[real] for part in (trial.head.query, trial.head.key))
    scores = scaled_dot(query, key)
    alone = asymmetry(masked_softmax(scaled_dot(query, query)))
    figures = {"scores": asymmetry(scores), "softmax": asymmetry(masked_softmax(scores)), "with W_Q = W_K": alone}
    holds = figures["scores"] > SAME and figures["softmax"] > alone
    return "separate projections make attention asymmetric: |S - Sᵀ| / |S|", figures, holds


def _one_projection(trial: ClaimTrial) -> _Found | None:
    if not trial.is_self:
        return None
    query = torch.from_numpy(trial.head.query)
    scores = scaled_dot(query, query)
    figures = {"scores": asymmetry(scores), "map": asymmetry(masked_softmax(scores))}
    return "with W_Q = W_K, the scores before softmax are symmetric", figures, figures["scores"] < SAME


def _bilinear(trial: ClaimTrial) -> _Found | None:
    """Compare (W_Q x + b_Q) · (W_K y + b_K) with xᵀ W y, W = W_Qᵀ W_K, biases as weights of an input that is always 1.

    With rotary positions this holds before the rotation. Then a token's score with itself is compared, which no
    rotation changes.
    """
    head = trial.head
    if head.x is None or head.normed:
        return None
    x = torch.from_numpy(head.x).double()
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=-1)
    to_query, to_key = (
        torch.from_numpy(np.column_stack(head.projections[name])).double() for name in ("query", "key")
    )  # [head_dim, hidden_size + 1]
    bilinear = Bilinear(x.shape[-1]).double()
    with torch.no_grad():
        bilinear.weight.copy_(to_query.T @ to_key)
        found = bilinear(x, x)
    query, key, _ = trial.vectors
    own = dot(query, key)
    off = relative(found, own) if head.rotary is None else relative(found.diagonal(), own.diagonal())
    statement = "a bilinear score of the inputs with W = W_Qᵀ W_K equals the head's score"
    return statement, {"deviation": off}, off < SAME


def _key_value(trial: ClaimTrial) -> _Found:
    """Compare with plain attention, Σ_n softmax(s(x_n, q)) x_n, which averages the vectors that it scores."""
    query, key, _ = trial.vectors
    found, plain = attend(query, key, key).output, []
    for q in query.numpy():
        scores = np.array([q @ x for x in key.numpy()]) / len(q) ** 0.5
        raised = np.exp(scores - scores.max())
        plain.append(raised / raised.sum() @ key.numpy())
    off = relative(found, torch.from_numpy(np.stack(plain)))
    return "with K = V, key-value attention equals plain attention", {"deviation": off}, off < SAME


def _identical_heads(trial: ClaimTrial, count: int = 3) -> _Found | None:
    """Give several heads this head's projections, and compare their outputs with its own."""
    head = trial.head
    if head.x is None or head.normed:
        return None
    x, size = torch.from_numpy(head.x), head.query.shape[-1]
    many = MultiHeadAttention(count * size, count, d_memory=x.shape[-1])
    many.query = nn.Linear(x.shape[-1], count * size)
    with torch.inference_mode():
        for name, (weight, bias) in head.projections.items():
            part = getattr(many, name)
            part.weight.copy_(torch.from_numpy(np.tile(weight, (count, 1))))
            part.bias.copy_(torch.from_numpy(np.tile(bias, count)))
        query, key, value = many.project(x[None])
        outputs = attend(query, key, value, mask_of(head), own_score(head)).output[0]  # [head, query, head_dim]
        own = torch.from_numpy(head.record.weights[0, 0] @ head.projected("value"))
    off = max(relative(output, own) for output in outputs)
    return "several heads with the same projections equal one head", {"deviation": off}, off < SAME


CLAIMS: dict[str, Callable[[ClaimTrial], _Found | None]] = {
    "variance on this head": _variance_on_this_head,
    "division": _division,
    "saturation on this head": _saturation_on_this_head,
    "saturation": _saturation,
    "zeros": _zeros,
    "hard attention": _hard_attention,
    "asymmetry": _asymmetry,
    "one projection": _one_projection,
    "bilinear": _bilinear,
    "key-value": _key_value,
    "heads alike": _identical_heads,
}  # None if the claim does not apply to a head


# --- measures -------------------------------------------------------------------------------------------


def grows(figures: Iterable[float]) -> bool:
    """Return whether every number is larger than the one before."""
    return all(small < large for small, large in pairwise(figures))


def relative(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, as a share of the largest expected number."""
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()


def _real_tokens(tokens: Tokens) -> Tensor:
    """Return bool `[token]`, False at [PAD]."""
    return ~torch.tensor(tokens.padding)
