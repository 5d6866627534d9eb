"""What the tutorials claim of attention, each claim measured on a real head and marked as it came out.

A trained head need not do what a tutorial says of random vectors; where it does not, the claim is marked so.
"""

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn

from attncli.analysis.patterns import counted_queries
from attncli.attention import Bilinear, MultiHeadAttention, attend, dot, masked_softmax, scaled_dot
from attncli.checks.variants import mask_of, own_score
from attncli.models.head import OneHead
from attncli.models.model import Model
from attncli.models.tapped import TappedModel
from attncli.text.tokens import Tokens

SIZES = (4, 16, 64, 256, 1024)  # of random queries and keys
KEYS = (8, 32, 128)  # at which softmax is tried on them
DRAWS = 12  # what all of them say is no chance, which would say it once in 2 ** 11
NEAR = 0.1  # of a variance, as a mean over all draws: more than three times what chance does
SAME = 1e-4  # what rounding in float32 explains, beside scores of about 10


@dataclass(frozen=True)
class Claim:
    """A claim of the tutorials, what was measured, and how it came out.

    figures: what was measured, by name. holds: whether the figures say what the claim says. finding: in words, what
    they say beyond that; else empty.
    """

    name: str
    statement: str
    figures: dict[str, float]
    holds: bool
    finding: str = ""


def check_claims(model: TappedModel, head: OneHead, seed: int = 0) -> list[Claim]:
    """All claims, on one head of the model and its text; that of the order is none of a layer that has a window.

    Claims on projections are left out where these are not known, and claims on symmetry where the keys are of another
    text.
    """
    itself, known = head.record.key_tokens is None, head.x is not None
    return [
        variance_grows_with_size(head),
        division_undoes_it(seed),
        softmax_saturates(head),
        softmax_saturates_at_random(seed),
        *([projections_make_it_asymmetric(head), one_projection_makes_it_symmetric(head)] if itself else []),
        *([bilinear_is_the_heads_score(head)] if known else []),
        key_value_with_one_matrix_is_plain(head),
        *([heads_alike_are_one_head(head)] if known else []),
        *(
            [order_is_unknown_without_positions(model, head, seed)]
            if isinstance(model, Model) and not model.config.goes_by_order
            else []
        ),
    ]


def variance_grows_with_size(head: OneHead) -> Claim:
    """Of q · k over the first d elements of this head's vectors, each element centred and divided by its deviation."""
    real, real_keys = real_tokens(head.record.tokens), real_tokens(head.record.keys)
    query = standardised(torch.from_numpy(head.query).double()[real])
    key = standardised(torch.from_numpy(head.key).double()[real_keys])
    d_k = query.shape[-1]
    sizes = sorted({max(d_k // part, 1) for part in (8, 4, 2, 1)})
    figures = {f"d_k {size}": variance_of_scores(query[:, :size], key[:, :size]) for size in sizes}
    found = list(figures.values())
    grows = len(found) > 1 and all(small < large for small, large in pairwise(found))
    return Claim("variance on this head", "the variance of q·k grows with d_k: this head's", figures, grows)


def division_undoes_it(seed: int) -> Claim:
    """Of random queries and keys with variance 1 the scores have variance d_k, and after the division 1.

    Means of DRAWS draws, one of which is off by up to a quarter.
    """
    draws = drawn(seed)
    figures = {}
    holds = True
    for size in SIZES:
        both = [(query[:, :size], key[:, :size]) for query, key in draws]
        plain = mean(variance_of_scores(query, key) for query, key in both)
        divided = mean(scaled_dot(query, key).var().item() for query, key in both)
        figures[f"d_k {size}, q·k"] = plain
        figures[f"d_k {size}, / √d_k"] = divided
        holds &= abs(plain / size - 1) < NEAR and abs(divided - 1) < NEAR
    statement = (
        f"it is d_k for random q and k, and dividing by √d_k makes it 1, within {NEAR:.0%}: mean of {DRAWS} draws"
    )
    return Claim("division", statement, figures, holds)


def softmax_saturates(head: OneHead) -> Claim:
    """The Jacobian of softmax, diag(w) - w wᵀ, on this head's scores, not divided and divided."""
    query, key = torch.from_numpy(head.query).double(), torch.from_numpy(head.key).double()
    mask = mask_of(head)
    rows = torch.from_numpy(counted_queries(head.record, head.record.layers[0]))
    figures = {
        "not divided": jacobian_norm(masked_softmax(dot(query, key), mask)[rows]),
        "divided": jacobian_norm(masked_softmax(scaled_dot(query, key), mask)[rows]),
    }
    return Claim(
        "saturation on this head",
        "without the division softmax saturates and less of its gradient is left: norm of its Jacobian, this head's",
        figures,
        figures["not divided"] < figures["divided"],
    )


def softmax_saturates_at_random(seed: int) -> Claim:
    """The same for random queries and keys: that norm without the division, divided by that with it.

    A row of many keys with small scores is nearly uniform, and has little gradient too. So scores that grow with d_k
    bring gradient first and take it later, the later the more keys there are. The verdict asks for that, in all draws:
    at every number of KEYS a d_k from which on less is left, and a larger one where there are more keys.
    """
    draws = drawn(seed)
    ratios = {
        (keys, size): [
            jacobian_norm(masked_softmax(dot(q, k))) / jacobian_norm(masked_softmax(scaled_dot(q, k)))
            for q, k in ((query[:, :size], key[:keys, :size]) for query, key in draws)
        ]
        for keys in KEYS
        for size in SIZES
    }
    figures = {
        f"{keys} keys: d_k {size}, {name}": end(found)
        for (keys, size), found in ratios.items()
        for name, end in (("least", min), ("most", max))
    }
    less, more = ({keys: found for keys in KEYS if (found := of(figures, keys))} for of in (less_from, more_up_to))
    return Claim(
        "saturation",
        f"the same for random q and k of a large d_k, the larger the more keys: not divided / divided, {DRAWS} draws",
        figures,
        list(less) == list(KEYS) and all(few < many for few, many in pairwise(less.values())),
        "; ".join(part for part in (told("less is left from", less), told("more is left up to", more)) if part),
    )


def less_from(figures: dict[str, float], keys: int) -> int | None:
    """The one of SIZES from which on the largest ratio of all draws is below 1; None where there is none."""
    others = [size for size in SIZES if not figures[f"{keys} keys: d_k {size}, most"] < 1]
    return next((size for size in SIZES if size > max(others, default=0)), None)


def more_up_to(figures: dict[str, float], keys: int) -> int | None:
    """The one of SIZES up to which the smallest ratio of all draws is above 1; None where there is none."""
    others = [size for size in SIZES if not figures[f"{keys} keys: d_k {size}, least"] > 1]
    return next((size for size in reversed(SIZES) if size < min(others, default=2 * max(SIZES))), None)


def told(what: str, sizes: dict[int, int]) -> str:
    """ "less is left from d_k 16 with 8 keys, d_k 64 with 32 keys"; empty without any."""
    return f"{what} " + ", ".join(f"d_k {size} with {keys} keys" for keys, size in sizes.items()) if sizes else ""


def projections_make_it_asymmetric(head: OneHead) -> Claim:
    """|S - Sᵀ| / |S|, of the scores and of softmax of them: 0 is symmetric, √2 is what unrelated entries give.

    Softmax makes symmetric scores asymmetric, as it divides each row by a sum of its own: what it does by itself is
    measured on the queries in the place of the keys. Masks, which do so too, are left out.
    """
    real = real_tokens(head.record.tokens)
    query, key = (torch.from_numpy(part)[real] for part in (head.query, head.key))
    scores = scaled_dot(query, key)
    alone = asymmetry(masked_softmax(scaled_dot(query, query)))
    figures = {"scores": asymmetry(scores), "softmax": asymmetry(masked_softmax(scores)), "with W_Q = W_K": alone}
    return Claim(
        "asymmetry",
        "separate projections make attention asymmetric: |S - Sᵀ| / |S|",
        figures,
        figures["scores"] > SAME and figures["softmax"] > alone,
    )


def one_projection_makes_it_symmetric(head: OneHead) -> Claim:
    """With W_Q in the place of W_K, scores are symmetric; softmax then divides each row by a sum of its own."""
    query = torch.from_numpy(head.query)
    scores = scaled_dot(query, query)
    figures = {"scores": asymmetry(scores), "map": asymmetry(masked_softmax(scores))}
    return Claim("one projection", "with W_Q = W_K it is symmetric before softmax", figures, figures["scores"] < SAME)


def bilinear_is_the_heads_score(head: OneHead) -> Claim:
    """(W_Q x + b_Q) · (W_K y + b_K) is xᵀ W y with W = W_Qᵀ W_K, the biases as weights of an input that is always 1.

    Where positions turn queries and keys, that is so before they do; what is left of it then is a token's score with
    itself, which no turning changes.
    """
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
    deviation = relative(found, own) if head.rotary is None else relative(found.diagonal(), own.diagonal())
    figures = {"deviation": deviation}
    return Claim(
        "bilinear", "a bilinear score with W = W_Qᵀ W_K on the inputs is the head's", figures, deviation < SAME
    )


def key_value_with_one_matrix_is_plain(head: OneHead) -> Claim:
    """Plain attention weighs the vectors that it has scored: Σ_n softmax(s(x_n, q)) x_n, here one query at a time."""
    query, key = head.query.astype(np.float64), head.key.astype(np.float64)
    found = attend(torch.from_numpy(query), torch.from_numpy(key), torch.from_numpy(key)).output
    plain = []
    for q in query:
        scores = np.array([q @ x for x in key]) / len(q) ** 0.5
        raised = np.exp(scores - scores.max())
        plain.append(raised / raised.sum() @ key)
    deviation = relative(found, torch.from_numpy(np.stack(plain)))
    return Claim(
        "key-value", "with K = V, key-value attention is plain attention", {"deviation": deviation}, deviation < SAME
    )


def heads_alike_are_one_head(head: OneHead, count: int = 3) -> Claim:
    """Several heads with this head's projections: their outputs are this head's, so many times."""
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
        own = torch.from_numpy(head.record.weights[0, 0] @ head.unturned("value"))
    deviation = max(relative(output, own) for output in outputs)
    figures = {"deviation": deviation}
    return Claim("heads alike", "several heads with the same projections are one head", figures, deviation < SAME)


def order_is_unknown_without_positions(model: Model, head: OneHead, seed: int) -> Claim:
    """Permuting the tokens permutes the vectors of every layer and does no more, if no position is told."""
    from attncli.features.mask import measure_permutation

    found = measure_permutation(model, head.record.tokens, seed)
    return Claim(
        "order",
        "without positions attention does not know the order",
        {"deviation": found.deviation},
        found.deviation <= found.tolerance,
    )


# --- measures -------------------------------------------------------------------------------------------


def real_tokens(tokens: Tokens) -> Tensor:
    """bool `[token]`: those that are not [PAD]."""
    return ~torch.tensor(tokens.padding)


def drawn(seed: int) -> list[tuple[Tensor, Tensor]]:
    """DRAWS times random queries and keys, as many as KEYS has at most, of the largest of SIZES; components of
    variance 1.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = 2, max(KEYS), max(SIZES)
    both = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(DRAWS))
    return [(query, key) for query, key in both]


def standardised(vectors: Tensor) -> Tensor:
    """Every component with mean 0 and variance 1 over the tokens; one that never changes becomes 0."""
    centred = vectors - vectors.mean(dim=0)
    return centred / centred.std(dim=0, correction=0).clamp(min=1e-12)


def variance_of_scores(query: Tensor, key: Tensor) -> float:
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
    """The largest difference, as a share of the largest expected number."""
    return ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()
