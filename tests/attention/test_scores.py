"""Scoring functions against sums written out, against each other, and against cases computed by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import (
    SCORES,
    Additive,
    Bilinear,
    Concat,
    ContentBased,
    Location,
    QueryKeyNorm,
    RMSNorm,
    attend,
    dot,
    scaled_dot,
)

sizes = st.integers(1, 6)


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(name: str, d_k: int, seed: int = 0):
    """The scoring function of this name, with its parameters drawn from a seed, in float64."""
    torch.manual_seed(seed)
    score = SCORES[name](d_k)
    return score.double() if isinstance(score, torch.nn.Module) else score


# --- the plain ones -------------------------------------------------------------------------------------


@given(leading=st.lists(sizes, max_size=3), queries=sizes, keys=sizes, d_k=sizes, seed=st.integers(0, 2**32))
def test_dot_is_the_sum_of_products(leading, queries, keys, d_k, seed):
    q, k = randn(seed, *leading, queries, d_k), randn(seed + 1, *leading, keys, d_k)
    expected = torch.einsum("...qd,...kd->...qk", q, k)
    torch.testing.assert_close(dot(q, k), expected)
    torch.testing.assert_close(scaled_dot(q, k), expected / d_k**0.5)


# --- all of them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCORES)
def test_leading_dimensions_broadcast(name):
    q, k = randn(0, 2, 3, 4, 5), randn(1, 3, 6, 5)
    score = made(name, 5)
    torch.testing.assert_close(score(q, k), score(q, k.expand(2, 3, 6, 5)))
    assert score(q[0, 0], k).shape == (3, 4, 6)


@pytest.mark.parametrize("name", [name for name in SCORES if name != "location"])
def test_keys_in_another_order_have_their_scores_in_that_order(name):
    score, q, k = made(name, 5), randn(0, 4, 5), randn(1, 6, 5)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(score(q, k[order]), score(q, k)[:, order])


@pytest.mark.parametrize("name", SCORES)
def test_all_go_through_the_one_attend(name):
    score, q, k, v = made(name, 5), randn(0, 4, 5), randn(1, 6, 5), randn(2, 6, 3)
    output, weights, scores = attend(q, k, v, score=score)
    torch.testing.assert_close(scores, score(q, k))
    torch.testing.assert_close(weights, torch.softmax(scores, dim=-1))
    torch.testing.assert_close(output, weights @ v)


# --- by hand --------------------------------------------------------------------------------------------


def filled(parameter: Tensor, numbers) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(numbers))


def test_additive_by_hand():
    """Bahdanau et al. 2015, A.1.2: vᵀ tanh(W q + U k), with tanh(x) left in the expectation."""
    score = Additive(d_k=1, d_query=2, d_hidden=2)
    filled(score.query.weight, [[1.0, 0.0], [0.0, 2.0]])
    filled(score.key.weight, [[1.0], [-1.0]])
    filled(score.energy.weight, [[3.0, 1.0]])
    found = score(torch.tensor([[0.5, 0.25]]), torch.tensor([[0.5], [1.5]]))
    expected = [3 * math.tanh(1.0) + math.tanh(0.0), 3 * math.tanh(2.0) + math.tanh(-1.0)]
    assert found[0].tolist() == pytest.approx(expected)
    assert expected == pytest.approx([2.284782, 2.130489], abs=1e-6)


def test_bilinear_by_hand():
    score = Bilinear(d_k=2, d_query=3)
    filled(score.weight, [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    # q W = (1 + 6, 2 + 6) = (7, 8)
    assert score(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 0.0], [1.0, -1.0]])).tolist() == [[7.0, -1.0]]


def test_concat_is_additive_with_its_two_matrices_beside_each_other():
    additive, concat = Additive(4, d_query=3, d_hidden=5).double(), Concat(4, d_query=3, d_hidden=5).double()
    filled(concat.hidden.weight, torch.cat([additive.query.weight, additive.key.weight], dim=1).tolist())
    filled(concat.energy.weight, additive.energy.weight.tolist())
    q, k = randn(0, 2, 3, 3), randn(1, 2, 5, 4)
    torch.testing.assert_close(concat(q, k), additive(q, k))


def test_location_asks_the_query_alone():
    score = Location(2, positions=4)
    filled(score.weight, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [5.0, 5.0]])
    q = torch.tensor([[2.0, 3.0]])
    assert score(q, torch.randn(3, 2)).tolist() == [[2.0, 3.0, 5.0]]
    with pytest.raises(ValueError, match="5 keys, but scores were learned for 4 positions"):
        score(q, torch.randn(5, 2))


def test_content_is_the_cosine_times_its_strength():
    score = ContentBased()
    q = torch.tensor([[3.0, 4.0]])
    k = torch.tensor([[6.0, 8.0], [-3.0, -4.0], [-4.0, 3.0], [0.0, 0.0]])
    assert score(q, k)[0].tolist() == pytest.approx([1.0, -1.0, 0.0, 0.0], abs=1e-6)
    filled(score.strength, 5.0)
    assert score(q, k)[0, 0].item() == pytest.approx(math.log1p(math.exp(5)), rel=1e-5)


# --- QK norm --------------------------------------------------------------------------------------------


def normed(norm, d_k: int) -> QueryKeyNorm:
    return (QueryKeyNorm(d_k) if norm is None else QueryKeyNorm(d_k, norm)).double()


def test_qk_norm_is_torchs_layer_norm_before_torchs_attention():
    """Gains that are not 1, and not the same for queries and keys."""
    score, q, k, v = normed(None, 8), randn(0, 2, 3, 8), randn(1, 2, 5, 8), randn(2, 2, 5, 4)
    filled(score.query_norm.weight, randn(3, 8).tolist())
    filled(score.key_norm.weight, randn(4, 8).tolist())
    of_query, of_key = (
        F.layer_norm(part, (8,), norm.weight) for part, norm in ((q, score.query_norm), (k, score.key_norm))
    )
    torch.testing.assert_close(attend(q, k, v, score=score).output, F.scaled_dot_product_attention(of_query, of_key, v))


def test_qk_norm_may_stand_before_another_score():
    q, k = randn(0, 3, 4), randn(1, 5, 4)
    torch.testing.assert_close(QueryKeyNorm(4, RMSNorm, dot).double()(q, k), 2 * normed(RMSNorm, 4)(q, k))
