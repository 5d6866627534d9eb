"""The claims of tutorials and papers on attention, as data, each measured on a real head.

A claim is a name, a statement, a measure and a comparison; `check_claims` is the one loop over `CLAIMS`. A trained head
need not do what a tutorial says of random vectors. Where it does not, the claim is marked so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from statistics import mean
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.analysis.patterns import counted_queries, entropy
from attncli.attention import (
    Additive,
    Bilinear,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    QueryKeyNorm,
    RMSNorm,
    Rotary,
    TransformerEncoderLayer,
    attend,
    dot,
    entmax15,
    hard_max,
    hard_sample,
    masked_softmax,
    scaled_dot,
    sparsemax,
    window_mask,
)
from attncli.checks.machine import median_seconds, one_thread
from attncli.features.mask import (
    Deviation,
    difference,
    measure_exactly,
    measure_permutation,
    measure_prefixes,
    measure_with_cache,
)
from attncli.features.mechanisms.designs import group_sizes, with_shared_keys
from attncli.features.mechanisms.head import SAME, HeadInLayer, mask_of, own_score
from attncli.models.engine import Engine
from attncli.models.head import OneHead
from attncli.models.model import Model
from attncli.text.tokens import Tokens

SIZES = (4, 16, 64, 256, 1024)  # of random queries and keys
KEYS = (8, 32, 128)  # at which softmax is tried on them
KEYS_DRAWN = 4000  # for each query, by hard attention
ERRORS = 3.0  # what chance does not reach, in standard errors of a mean over so many draws
DRAWS = 12  # what all of them show is no chance, which would show it once in 2 ** 11
NEAR = 0.1  # of a variance, as a mean over all draws: more than three times what chance does
SHIFT = 100  # tokens by which a text is moved
GROWN = 10.0  # factor by which queries become longer
LAYERS = 4  # of random weights
TINY = 1e-12  # what norms add to a square

_Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Trial:
    """A head that claims are measured on, among those of its layer. seed: of random vectors and weights."""

    model: Engine
    head: OneHead
    inside: HeadInLayer
    seed: int = 0

    @property
    def has_input(self) -> bool:
        """Return whether the layer's input and projections are known."""
        return self.head.x is not None

    @property
    def is_self(self) -> bool:
        """Return whether the keys are of the same text."""
        return self.head.record.key_tokens is None

    @property
    def d_k(self) -> int:
        """Return the size of the head's queries and keys."""
        return int(self.inside.query.shape[-1])

    @cached_property
    def permuted(self) -> Deviation:
        """The difference that a permutation of the tokens makes without positions."""
        return measure_exactly(measure_permutation, self.model, self.head.record.tokens, self.seed)

    @cached_property
    def prefixes(self) -> Deviation:
        """The difference between the vectors of prefixes and those of the text."""
        return measure_exactly(measure_prefixes, self.model, self.head.record.tokens)

    @cached_property
    def kept(self) -> Deviation:
        """The difference between the vectors of a text read token by token and those of one pass."""
        return measure_exactly(measure_with_cache, self.model, self.head.record.tokens)


@dataclass(frozen=True)
class Claim:
    """A claim, the measured figures, and whether they agree with it.

    finding: in words, what the figures show beyond that; else empty.
    """

    name: str
    statement: str
    figures: _Figures
    holds: bool
    finding: str = ""


class _Rule(NamedTuple):
    """A claim as data.

    measure: returns its figures. holds: compares the figures with each other and with the limit. applies: returns
    whether the claim is about such a head.
    """

    name: str
    statement: str
    measure: Callable[[Trial], _Figures]
    holds: Callable[[_Figures, float], bool]
    limit: Callable[[Trial], float] = lambda trial: SAME
    applies: Callable[[Trial], bool] = lambda trial: True
    finding: Callable[[_Figures], str] = lambda figures: ""


def check_claims(trial: Trial) -> list[Claim]:
    """Measure every claim that is about such a head."""
    with torch.random.fork_rng(devices=[]):  # modules draw weights that are replaced
        return [check(rule, trial) for rule in CLAIMS if rule.applies(trial)]


def check(rule: _Rule, trial: Trial) -> Claim:
    """Measure one claim on a head."""
    figures = rule.measure(trial)
    statement = rule.statement.format(root=trial.d_k**0.5)
    return Claim(rule.name, statement, figures, rule.holds(figures, rule.limit(trial)), rule.finding(figures))


# --- the division by √d_k -------------------------------------------------------------------------------


def _variance_by_size(trial: Trial) -> _Figures:
    """Return the variance of q · k over the first d elements of the vectors, each element standardised."""
    head = trial.head
    query = _standardised(torch.from_numpy(head.query).double()[_real_tokens(head.record.tokens)])
    key = _standardised(torch.from_numpy(head.key).double()[_real_tokens(head.record.keys)])
    d_k = query.shape[-1]
    sizes = sorted({max(d_k // part, 1) for part in (8, 4, 2, 1)})
    return {f"d_k {size}": variance_of_scores(query[:, :size], key[:, :size]) for size in sizes}


def _variance_at_random(trial: Trial) -> _Figures:
    """Return the variance of scores of random queries and keys: the mean of DRAWS draws, one of which may be off by a
    quarter.
    """
    draws = draw_vectors(trial.seed)
    figures = {}
    for size in SIZES:
        both = [(query[:, :size], key[:, :size]) for query, key in draws]
        figures[f"d_k {size}, q·k"] = mean(variance_of_scores(query, key) for query, key in both)
        figures[f"d_k {size}, / √d_k"] = mean(scaled_dot(query, key).var().item() for query, key in both)
    return figures


def _is_undone(figures: _Figures, limit: float) -> bool:
    """Return whether variances are d_k, and 1 after the division."""
    return all(
        abs(figures[f"d_k {size}, q·k"] / size - 1) < NEAR and abs(figures[f"d_k {size}, / √d_k"] - 1) < NEAR
        for size in SIZES
    )


def saturation(trial: Trial) -> _Figures:
    """Return the norm of softmax's Jacobian, diag(w) - w wᵀ, on this head's scores, not divided and divided."""
    head = trial.head
    query, key = torch.from_numpy(head.query).double(), torch.from_numpy(head.key).double()
    mask = mask_of(head)
    rows = torch.from_numpy(counted_queries(head.record, head.record.layers[0]))
    return {
        "not divided": jacobian_norm(masked_softmax(dot(query, key), mask)[rows]),
        "divided": jacobian_norm(masked_softmax(scaled_dot(query, key), mask)[rows]),
    }


def _saturation_at_random(trial: Trial) -> _Figures:
    """Return that norm without the division, divided by that with it, for random queries and keys."""
    draws = draw_vectors(trial.seed)
    ratios = {
        (keys, size): [
            jacobian_norm(masked_softmax(dot(q, k))) / jacobian_norm(masked_softmax(scaled_dot(q, k)))
            for q, k in ((query[:, :size], key[:keys, :size]) for query, key in draws)
        ]
        for keys in KEYS
        for size in SIZES
    }
    return {
        f"{keys} keys: d_k {size}, {name}": end(found)
        for (keys, size), found in ratios.items()
        for name, end in (("least", min), ("most", max))
    }


def _turns_later_with_more_keys(figures: _Figures, limit: float) -> bool:
    """Return whether less gradient is left from some d_k on, the larger the more keys there are, in all draws.

    A row of many keys with small scores is nearly uniform, and has little gradient too. So scores that grow with d_k
    bring gradient first and take it later.
    """
    less, _ = _turning_points(figures)
    return list(less) == list(KEYS) and all(few < many for few, many in pairwise(less.values()))


def _describe_turning(figures: _Figures) -> str:
    """ "the gradient shrinks from d_k 16 with 8 keys, d_k 64 with 32 keys; it grows up to ..." """
    sizes = zip(("the gradient shrinks from", "it grows up to"), _turning_points(figures), strict=True)
    return "; ".join(
        f"{words} " + ", ".join(f"d_k {size} with {keys} keys" for keys, size in some.items())
        for words, some in sizes
        if some
    )


def _turning_points(figures: _Figures) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by number of keys, the d_k from which on all draws have less gradient, and up to which all have more."""
    less, more = dict[int, int](), dict[int, int]()
    for keys in KEYS:
        for size in reversed(SIZES):
            if not figures[f"{keys} keys: d_k {size}, most"] < 1:
                break
            less[keys] = size
        for size in SIZES:
            if not figures[f"{keys} keys: d_k {size}, least"] > 1:
                break
            more[keys] = size
    return less, more


# --- soft, sparse and hard attention ----------------------------------------------------------------------


def _zeros(trial: Trial) -> _Figures:
    """Return the share of visible keys whose weight is exactly 0, for the head's own queries and keys."""
    head = trial.head
    rows = torch.from_numpy(counted_queries(head.record, head.record.layers[0]))
    query, key = torch.from_numpy(head.query).double(), torch.from_numpy(head.key).double()
    visible, scores = mask_of(head)[rows].expand(-1, len(key)), scaled_dot(query, key)[rows]
    return {
        name: (normalise(scores, visible)[visible] == 0).double().mean().item()
        for name, normalise in (("softmax", masked_softmax), ("1.5-entmax", entmax15), ("sparsemax", sparsemax))
    }


def gradients(trial: Trial) -> _Figures:
    """Return lengths of the gradients of a loss Σ_i u · output_i, u drawn, and how REINFORCE estimates it.

    Hard attention draws key z with the probabilities w of softmax, and the loss of a query is f_z = u · v_z. Its
    expectation is the loss of soft attention, with the gradient w_j (f_j - Σ w f) to score j. REINFORCE estimates it by
    f_z ∂ log w_z / ∂s = f_z (e_z - w) (Williams 1992, theorem 1; Xu et al. 2015, equation 11), and with a baseline b by
    (f_z - b) (e_z - w), here b = Σ w f. The control leaves out - w.
    """
    head = trial.head
    rows = torch.from_numpy(counted_queries(head.record, head.record.layers[0]))
    generator = torch.Generator().manual_seed(trial.seed)
    query, key, value = (torch.from_numpy(part).double() for part in (head.query, head.key, head.value))
    mask, direction = mask_of(head)[rows], torch.randn(value.shape[-1], generator=generator, dtype=value.dtype)
    scores = scaled_dot(query, key)[rows].requires_grad_()
    value.requires_grad_()

    def lengths(weights: Tensor) -> list[float]:
        loss = (weights @ value @ direction).sum()
        found = torch.autograd.grad(loss, (scores, value), allow_unused=True)
        return [0.0 if gradient is None else gradient.norm().item() for gradient in found]

    soft, _ = lengths(masked_softmax(scores, mask))
    hardest, to_values = lengths(hard_max(scores, mask))
    drawn, _ = lengths(hard_sample(scores, mask, generator))
    with torch.inference_mode():
        weights, losses = masked_softmax(scores, mask), (value @ direction)[None]  # [query, key], [1, key]
        draws = torch.multinomial(weights, KEYS_DRAWN, replacement=True, generator=generator)
        shares = torch.zeros_like(weights).scatter_add(1, draws, torch.ones_like(draws, dtype=weights.dtype))
        shares /= KEYS_DRAWN
        baseline = (weights * losses).sum(dim=1, keepdim=True)
        exact = weights * (losses - baseline)
        estimate, deviation = _reinforce(losses, weights, shares)
        _, with_baseline = _reinforce(losses - baseline, weights, shares)
        _, expected = _reinforce(losses, weights, weights)
        figures = {
            f"mean of {KEYS_DRAWN} draws / |exact|: error": (estimate - exact).norm().item(),
            f"mean of {KEYS_DRAWN} draws / |exact|: standard error": expected / KEYS_DRAWN**0.5,
            f"mean of {KEYS_DRAWN} draws / |exact|: error without - w": (shares * losses - exact).norm().item(),
            "deviation of one draw / |exact|: no baseline": deviation,
            "deviation of one draw / |exact|: baseline": with_baseline,
        }
        length = max(exact.norm().item(), TINY)
    return {
        "|gradient| to the scores: soft": soft,
        "|gradient| to the scores: hard maximum": hardest,
        "|gradient| to the scores: hard draw": drawn,
        "|gradient| to the values: hard maximum": to_values,
        **{name: figure / length for name, figure in figures.items()},
    }


def _reinforce(losses: Tensor, weights: Tensor, shares: Tensor) -> tuple[Tensor, float]:
    """Return the mean of f_z (e_z - w) over draws, `[query, key]`, and the standard deviation of one draw.

    shares: how often each key was drawn, as a share of the draws of its query.
    """
    drawn = shares * losses
    found = drawn - weights * drawn.sum(dim=1, keepdim=True)
    steps = 1 - 2 * weights + weights.square().sum(dim=1, keepdim=True)  # |e_z - w|²
    variance = (drawn * losses * steps).sum() - found.square().sum()
    return found, variance.clamp(min=0).sqrt().item()


def _only_soft_has_a_gradient(figures: _Figures, limit: float) -> bool:
    """Return whether hard attention passes nothing to the scores, and REINFORCE is right on average, within chance."""
    soft, hardest, drawn, to_values, error, standard_error, biased, *_ = figures.values()
    chance = ERRORS * standard_error
    return hardest == drawn == 0 < min(soft, to_values) and error <= chance < biased


# --- projections ----------------------------------------------------------------------------------------


def _asymmetry_of_projections(trial: Trial) -> _Figures:
    """Return |S - Sᵀ| / |S| of the scores and of softmax of them: 0 is symmetric, √2 is what unrelated entries give.

    Softmax makes symmetric scores asymmetric, as it divides each row by a sum of its own. Its own effect is measured on
    the queries in the place of the keys. Masks, which do so too, are left out.
    """
    head = trial.head
    real = _real_tokens(head.record.tokens)
    query, key = (torch.from_numpy(part)[real] for part in (head.query, head.key))
    scores = scaled_dot(query, key)
    alone = asymmetry(masked_softmax(scaled_dot(query, query)))
    return {"scores": asymmetry(scores), "softmax": asymmetry(masked_softmax(scores)), "with W_Q = W_K": alone}


def _asymmetry_of_one_projection(trial: Trial) -> _Figures:
    """Return it with W_Q in the place of W_K; softmax then divides each row by a sum of its own."""
    query = torch.from_numpy(trial.head.query)
    scores = scaled_dot(query, query)
    return {"scores": asymmetry(scores), "map": asymmetry(masked_softmax(scores))}


def _deviation_of_bilinear(trial: Trial) -> _Figures:
    """Compare (W_Q x + b_Q) · (W_K y + b_K) with xᵀ W y, W = W_Qᵀ W_K, biases as weights of an input that is always 1.

    Where positions turn queries and keys, that is so before they do. Then a token's score with itself is compared,
    which no turning changes.
    """
    head = trial.head
    x = torch.from_numpy(head.x).double()
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=-1)
    to_query, to_key = (
        torch.from_numpy(np.column_stack(head.projections[name])).double() for name in ("query", "key")
    )  # [head_dim, hidden_size + 1]
    bilinear = Bilinear(x.shape[-1]).double()
    with torch.no_grad():
        bilinear.weight.copy_(to_query.T @ to_key)
        found = bilinear(x, x)
    own = dot(*(torch.from_numpy(part).double() for part in (head.query, head.key)))
    return {"deviation": relative(found, own) if head.rotary is None else relative(found.diagonal(), own.diagonal())}


def _deviation_of_plain(trial: Trial) -> _Figures:
    """Compare with plain attention, Σ_n softmax(s(x_n, q)) x_n, which weighs the vectors that it has scored."""
    query, key = trial.head.query.astype(np.float64), trial.head.key.astype(np.float64)
    found = attend(torch.from_numpy(query), torch.from_numpy(key), torch.from_numpy(key)).output
    plain = []
    for q in query:
        scores = np.array([q @ x for x in key]) / len(q) ** 0.5
        raised = np.exp(scores - scores.max())
        plain.append(raised / raised.sum() @ key)
    return {"deviation": relative(found, torch.from_numpy(np.stack(plain)))}


def _deviation_of_equal_heads(trial: Trial, count: int = 3) -> _Figures:
    """Compare the outputs of several heads with this head's projections with its own output."""
    head = trial.head
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
    return {"deviation": max(relative(output, own) for output in outputs)}


# --- positions, windows, shared keys --------------------------------------------------------------------


def permutation(trial: Trial) -> _Figures:
    """Compare the vectors of permuted tokens with permuted vectors, in every layer, without and with positions."""
    ordered = measure_permutation(trial.model, trial.head.record.tokens, trial.seed, positions=True)
    return {"deviation": trial.permuted.deviation, "with positions": ordered.deviation}


def _prefixes(trial: Trial) -> _Figures:
    """Compare the vectors of prefixes with those of the text, and with those of the text without a mask."""
    shown = measure_prefixes(trial.model, trial.head.record.tokens, others="none")
    return {"deviation": trial.prefixes.deviation, "if the text is read without a mask": shown.deviation}


def _kept(trial: Trial) -> _Figures:
    """Compare the vectors of a text read token by token with those of one pass, and those of each token alone."""
    model, tokens = trial.model, trial.head.record.tokens
    alone = zip(*(model.hidden_states(tokens.take([place])) for place in range(len(tokens))), strict=True)
    forgotten = difference(model, [torch.cat(states) for states in alone], model.hidden_states(tokens))
    return {"deviation": trial.kept.deviation, "if nothing is kept": forgotten.deviation}


def _rotary_of_moved_text(trial: Trial) -> _Figures:
    """Compare rotary scores of all heads with those of the text further along, and with only its keys further along."""
    head = trial.inside
    rotary = Rotary(head.query.shape[-1] // 2 * 2)

    def scores(of_query: int, of_key: int) -> Tensor:
        places = torch.arange(len(head.mask), device=head.query.device)
        angles = (rotary.angles(places + first, torch.float64) for first in (of_query, of_key))
        turned = (rotary.turn(x.double(), one) for x, one in zip((head.query, head.key), angles, strict=True))
        return dot(*turned)

    own = scores(0, 0)
    return {
        "deviation": relative(scores(SHIFT, SHIFT), own),
        "if only its keys are": relative(scores(0, SHIFT), own),
    }


def _moved_by_windows(trial: Trial) -> _Figures:
    """Return the weight that moves in narrower and narrower windows, beginning with one as wide as the text."""
    head = trial.inside
    most = int(head.real.sum()) - 1
    reaches = sorted({most, most // 2, most // 4, 1, 0} - {-1}, reverse=True)
    return {f"reach {reach}": head.under(head.score, window_mask(reach, len(head.mask))).moved for reach in reaches}


# --- norms, gates, layers -------------------------------------------------------------------------------


def _scores_with_norm(trial: Trial) -> _Figures:
    """Return largest scores and entropies with and without QK norm, which has no gains here, also of longer queries."""
    head = trial.inside
    query, key = head.query[head.number].double(), head.key[head.number].double()
    normed = QueryKeyNorm(trial.d_k, lambda d_k: nn.LayerNorm(d_k, eps=TINY, bias=False)).to(query)
    figures = {}
    with torch.inference_mode():
        for name, score in (("own", scaled_dot), ("QK norm", normed)):
            for times, words in ((1.0, "as it is"), (GROWN, f"queries x {GROWN:g}")):
                scores = score(times * query, key)
                weights = masked_softmax(scores, head.mask).cpu().numpy()[head.counted]
                figures[f"{name}: largest score, {words}"] = scores.abs().max().item()
                figures[f"{name}: entropy, {words}"] = float(entropy(weights).mean())
    return figures


def _deviation_of_rms_norm(trial: Trial) -> _Figures:
    """Compare LayerNorm with RMSNorm on the layer's input, without gains and biases."""
    x = torch.from_numpy(trial.head.x).double()
    norm = RMSNorm(x.shape[-1], eps=TINY).double()
    expected = F.layer_norm(x, x.shape[-1:], eps=TINY)
    with torch.inference_mode():
        return {
            "deviation": relative(norm(x - x.mean(dim=-1, keepdim=True)), expected),
            "if the mean is left": relative(norm(x), expected),
        }


def _deviation_of_gates(trial: Trial) -> _Figures:
    """Compare f(x W) ⊗ (x V + c) on the layer's input, W drawn, with f(x W): with V = 0 and c = 1, and with V drawn."""
    x = torch.from_numpy(trial.head.x).double()
    size = x.shape[-1]
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(trial.seed)
        plain, gated = FeedForward(size, size, F.gelu).double(), GatedFeedForward(size, size, F.gelu).double()
        gated.down = plain.down
        gated.up.weight[:size], gated.up.bias[:size] = plain.up.weight, plain.up.bias
        with_values = relative(gated(x), plain(x))
        gated.up.weight[size:], gated.up.bias[size:] = 0.0, 1.0
        return {"deviation": relative(gated(x), plain(x)), "if values depend on x": with_values}


def _growth_by_layer(trial: Trial) -> _Figures:
    """Return the mean square of vectors after layers of random weights, on this layer's input brought to 1.

    It grows with every layer of pre-norm (Xiong et al. 2020, lemma 2).
    """
    x = torch.from_numpy(trial.head.x)
    size = x.shape[-1]
    start = RMSNorm(size, eps=TINY)(x)[None]
    figures = {}
    for name, norm_first in (("pre-norm", True), ("post-norm", False)):
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(trial.seed)
            y = start
            for number in range(1, LAYERS + 1):
                y = TransformerEncoderLayer(size, 1, size, norm_first)(y).output
                figures[f"{name}: layer {number}"] = y.square().mean().item()
    return figures


# --- comparisons ----------------------------------------------------------------------------------------


def _is_same(figures: _Figures, limit: float) -> bool:
    """Return whether the first figure is within rounding."""
    return next(iter(figures.values())) < limit


def _only_first_is_same(figures: _Figures, limit: float) -> bool:
    """Return whether the first of two figures is within rounding and the second is not."""
    first, second = figures.values()
    return first < limit < second


def grows(figures: Iterable[float]) -> bool:
    """Return whether every number is larger than the one before."""
    return all(small < large for small, large in pairwise(figures))


def _scores_are_bounded(figures: _Figures, limit: float) -> bool:
    """Return whether QK norm keeps scores within the limit and entropies where they are, and without it they shrink."""
    _, own, _, own_longer, largest, normed, largest_longer, normed_longer = figures.values()
    return max(largest, largest_longer) <= limit + SAME and abs(normed - normed_longer) < SAME and own > own_longer


def _only_pre_norm_grows(figures: _Figures, limit: float) -> bool:
    """Return whether vectors grow with every layer of pre-norm, and stay with post-norm."""
    pre, post = list(figures.values())[:LAYERS], list(figures.values())[LAYERS:]
    return grows([1.0, *pre]) and all(abs(one - 1) < NEAR for one in post)


# --- measures -------------------------------------------------------------------------------------------


def _real_tokens(tokens: Tokens) -> Tensor:
    """Return bool `[token]`, False at [PAD]."""
    return ~torch.tensor(tokens.padding)


def draw_vectors(seed: int) -> list[tuple[Tensor, Tensor]]:
    """Draw random queries and keys DRAWS times, as many as the largest of KEYS, of the largest of SIZES, variance 1."""
    generator = torch.Generator().manual_seed(seed)
    shape = 2, max(KEYS), max(SIZES)
    both = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(DRAWS))
    return [(query, key) for query, key in both]


def _standardised(vectors: Tensor) -> Tensor:
    """Give every component mean 0 and variance 1 over the tokens; one that never changes becomes 0."""
    centred = vectors - vectors.mean(dim=0)
    return centred / centred.std(dim=0, correction=0).clamp(min=1e-12)


def variance_of_scores(query: Tensor, key: Tensor) -> float:
    """Return the variance of all q · k."""
    return dot(query, key).var().item()


def jacobian_norm(weights: Tensor) -> float:
    """|diag(w) - w wᵀ| (Frobenius) of rows of weights `[query, key]`, mean over the rows.

    Written out: Σ w_i² - 2 Σ w_i³ + (Σ w_i²)².
    """
    squares = weights.square().sum(dim=-1)
    norms = (squares - 2 * weights.pow(3).sum(dim=-1) + squares.square()).clamp(min=0).sqrt()
    return norms.mean().item()


def asymmetry(matrix: Tensor) -> float:
    """|S - Sᵀ| / |S|, Frobenius."""
    return ((matrix - matrix.T).norm() / matrix.norm().clamp(min=1e-30)).item()


def relative(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, as a share of the largest expected number."""
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()


# --- what scores cost ----------------------------------------------------------------------------------

# Of growing texts and vectors: operations counted, and time measured.
#
#     projections of queries and keys     4 n d²        of both: W_Q and W_K, or W and U
#     q · k                               2 n² d        a product and a sum for each element
#     vᵀ tanh(W q + U k)                  4 n² d        a sum, a tanh, a product and a sum for each element
#
# (Vaswani et al. 2017, section 3.2.1: "similar in theoretical complexity", and dot products "much faster".)

COST_TOKENS = (4, 16, 64, 256)  # with vectors of SIZE
COST_SIZES = (4, 16, 64, 256)  # with a text of LENGTH
SIZE, LENGTH = 64, 128
ROUNDS = 9


class Cost(NamedTuple):
    """The cost of the scores of one head: of a text of n tokens with itself, with vectors of d elements."""

    tokens: int
    size: int
    dot_operations: int
    additive_operations: int
    dot_seconds: float
    additive_seconds: float

    @property
    def operations_ratio(self) -> float:
        """Return additive / dot."""
        return self.additive_operations / self.dot_operations

    @property
    def seconds_ratio(self) -> float:
        """Return additive / dot."""
        return self.additive_seconds / self.dot_seconds


def costs(tokens: int, size: int) -> list[list[Cost]]:
    """Return the costs at the size of a head, then for growing texts, and for growing vectors."""
    with one_thread():
        series = [[(tokens, size)], [(n, SIZE) for n in COST_TOKENS], [(LENGTH, d) for d in COST_SIZES]]
        return [[measure_cost(n, d) for n, d in some] for some in series]


def measure_cost(tokens: int, size: int) -> Cost:
    """Count the operations of both scores, and take the median time of ROUNDS."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        x = torch.randn(tokens, size)
        additive = Additive(size)
        to_query, to_key = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        runs = {"dot": lambda: dot(to_query(x), to_key(x)), "additive": lambda: additive(x, x)}
        for run in runs.values():
            run()  # the first one takes longer
        seconds = median_seconds(runs, ROUNDS, x.device)
    return Cost(tokens, size, *count_operations(tokens, size), seconds["dot"], seconds["additive"])


def count_operations(tokens: int, size: int) -> tuple[int, int]:
    """Return the operations of dot products and of additive scores, with the projections of queries and keys."""
    projections, pairs = 4 * tokens * size**2, tokens**2 * size
    return projections + 2 * pairs, projections + 4 * pairs


def crossover(series: Sequence[Cost]) -> Cost | None:
    """Return the first of a series from which on additive scores take longer than their operations alone explain."""
    slower = list(takewhile(lambda one: one.seconds_ratio > one.operations_ratio, reversed(series)))
    return slower[-1] if slower else None


# --- the claims -----------------------------------------------------------------------------------------


CLAIMS = (
    _Rule(
        "variance on this head",
        "the variance of q·k grows with d_k: on this head",
        _variance_by_size,
        lambda figures, _: len(figures) > 1 and grows(figures.values()),
    ),
    _Rule(
        "division",
        f"for random q and k it is d_k, and dividing by √d_k makes it 1 (within {NEAR:.0%}): mean of {DRAWS} draws",
        _variance_at_random,
        _is_undone,
    ),
    _Rule(
        "saturation on this head",
        "without the division, softmax saturates and its gradient shrinks: norm of its Jacobian on this head",
        saturation,
        lambda figures, _: figures["not divided"] < figures["divided"],
    ),
    _Rule(
        "saturation",
        "so it does for random q and k, from a d_k that grows with the number of keys: "
        f"not divided / divided, {DRAWS} draws",
        _saturation_at_random,
        _turns_later_with_more_keys,
        finding=_describe_turning,
    ),
    _Rule(
        "zeros",
        "sparsemax and 1.5-entmax give keys a weight of exactly 0, softmax doesn't: share of the visible keys",
        _zeros,
        lambda figures, _: figures["softmax"] == 0 < figures["1.5-entmax"] <= figures["sparsemax"],
    ),
    _Rule(
        "hard attention",
        "hard attention passes no gradient to the scores, soft attention does; REINFORCE estimates it, right on "
        "average: lengths of gradients",
        gradients,
        _only_soft_has_a_gradient,
    ),
    _Rule(
        "asymmetry",
        "separate projections make attention asymmetric: |S - Sᵀ| / |S|",
        _asymmetry_of_projections,
        lambda figures, limit: figures["scores"] > limit and figures["softmax"] > figures["with W_Q = W_K"],
        applies=lambda trial: trial.is_self,
    ),
    _Rule(
        "one projection",
        "with W_Q = W_K, the scores before softmax are symmetric",
        _asymmetry_of_one_projection,
        _is_same,
        applies=lambda trial: trial.is_self,
    ),
    _Rule(
        "bilinear",
        "a bilinear score of the inputs with W = W_Qᵀ W_K equals the head's score",
        _deviation_of_bilinear,
        _is_same,
        applies=lambda trial: trial.has_input and not trial.head.normed,
    ),
    _Rule("key-value", "with K = V, key-value attention equals plain attention", _deviation_of_plain, _is_same),
    _Rule(
        "heads alike",
        "several heads with the same projections equal one head",
        _deviation_of_equal_heads,
        _is_same,
        applies=lambda trial: trial.has_input and not trial.head.normed,
    ),
    _Rule(
        "order",
        "without positions, attention ignores the order of the tokens",
        permutation,
        lambda figures, limit: figures["deviation"] <= limit,
        limit=lambda trial: trial.permuted.tolerance,
        applies=lambda trial: isinstance(trial.model, Model) and not trial.model.config.goes_by_order,
    ),
    _Rule(
        "causal",
        "no vector depends on later tokens: prefixes of the text have the vectors of the text",
        _prefixes,
        _only_first_is_same,
        limit=lambda trial: trial.prefixes.tolerance,
        applies=lambda trial: (
            trial.head.record.kind == "decoder" and trial.is_self and "encoder" not in trial.model.parts
        ),
    ),
    _Rule(
        "kept keys and values",
        "a text read token by token, with kept keys and values, has the vectors of one pass",
        _kept,
        _only_first_is_same,
        limit=lambda trial: trial.kept.tolerance,
        applies=lambda trial: isinstance(trial.model, Model) and trial.model.part == "decoder",
    ),
    _Rule(
        "rotary",
        f"rotary scores depend only on the difference of positions: the text shifted by {SHIFT} tokens",
        _rotary_of_moved_text,
        _only_first_is_same,
        applies=lambda trial: trial.is_self and trial.d_k > 1,
    ),
    _Rule(
        "window",
        "a window as wide as the text changes nothing, and a narrower window moves more weight",
        _moved_by_windows,
        lambda figures, limit: (
            _is_same(figures, limit) and all(wide <= narrow for wide, narrow in pairwise(figures.values()))
        ),
        applies=lambda trial: trial.is_self,
    ),
    _Rule(
        "shared keys",
        "the more heads share keys, the more of this head's weight moves: moved, with the mean of its group's keys",
        lambda trial: {
            f"heads {size}": with_shared_keys(trial.inside, size).moved for size in group_sizes(trial.inside)
        },
        lambda figures, limit: _is_same(figures, limit) and grows(figures.values()),
        applies=lambda trial: trial.is_self and len(trial.inside.key) > 1,
    ),
    _Rule(
        "QK norm",
        "QK norm keeps scores within √d_k = {root:.2f}, so longer queries don't saturate softmax",
        _scores_with_norm,
        _scores_are_bounded,
        limit=lambda trial: trial.d_k**0.5,
        applies=lambda trial: trial.is_self,
    ),
    _Rule(
        "RMSNorm",
        "LayerNorm equals RMSNorm of x minus its mean: on this layer's input",
        _deviation_of_rms_norm,
        _only_first_is_same,
        applies=lambda trial: trial.is_self and trial.has_input,
    ),
    _Rule(
        "GLU",
        "a gated feed-forward network (GLU) with all values 1 equals the plain one: on this layer's input",
        _deviation_of_gates,
        _only_first_is_same,
        applies=lambda trial: trial.is_self and trial.has_input,
    ),
    _Rule(
        "pre-norm",
        "with pre-norm, vectors grow from layer to layer; with post-norm, they don't: mean square, random layers",
        _growth_by_layer,
        _only_pre_norm_grows,
        applies=lambda trial: trial.is_self and trial.has_input,
    ),
)
