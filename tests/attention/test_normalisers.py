"""Normalisers: their laws, their numbers by hand, and their gradients against finite differences and closed forms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import (
    NORMALISERS,
    attend,
    entmax15,
    hard_max,
    hard_sample,
    masked_softmax,
    relu_norm,
    sigmoid,
    sparsemax,
)

HARD = "hard_max", "hard_sample"
SMOOTH = [name for name in NORMALISERS if name not in HARD]

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", NORMALISERS)
@given(
    seeds,
    st.lists(sizes, max_size=2),
    sizes,
    sizes,
    st.sampled_from([0.0, 0.3, 0.8, 1.0]),
)
def test_rows_sum_to_one_or_are_nothing_and_respect_the_mask(name, seed, leading, queries, keys, share):
    scores = drawn(seed, *leading, queries, keys)
    mask = torch.rand(*leading, queries, keys, generator=torch.Generator().manual_seed(seed)) < share
    weights = NORMALISERS[name](scores, mask)
    assert weights.shape == scores.shape and weights.dtype == scores.dtype
    assert (weights[~mask] == 0).all() and (weights >= 0).all()
    filled = ((scores > 0) & mask).any(dim=-1) if name == "relu_norm" else mask.any(dim=-1)
    if name != "sigmoid":
        torch.testing.assert_close(weights.sum(dim=-1), filled.double())


def test_a_temperature_by_hand():
    scores = torch.tensor([[0.0, 2.0]]).log1p().double()  # exp: 1 and 3
    torch.testing.assert_close(masked_softmax(scores), torch.tensor([[0.25, 0.75]]).double())
    torch.testing.assert_close(masked_softmax(scores, temperature=0.5), torch.tensor([[0.1, 0.9]]).double())  # 1 and 9


@given(seeds)
def test_low_temperatures_lead_to_the_maximum_and_high_ones_to_all_alike(seed):
    scores = drawn(seed, 4, 6)
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(seed)) < 0.7
    scores = scores.argsort(dim=-1).argsort(dim=-1).double()  # whole numbers, no two alike
    torch.testing.assert_close(masked_softmax(scores, mask, 0.01), hard_max(scores, mask), atol=1e-6, rtol=0)
    uniform = mask.double() / mask.sum(dim=-1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(masked_softmax(scores, mask, 1e6), uniform, atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [0, -1.0])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="a temperature must be positive"):
        masked_softmax(torch.zeros(1, 2), None, temperature)


def test_of_several_highest_keys_the_first_is_taken():
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [[0, 1, 0]]
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]]), torch.tensor([True, False, True])).tolist() == [[0, 0, 1]]
    assert hard_max(torch.tensor([[-3.0, -1.0, 5.0]]), torch.tensor([True, True, False])).tolist() == [[0, 1, 0]]


def test_the_expectation_of_a_sample_is_soft_attention():
    scores = torch.tensor([[0.0, 1.0, 2.0, -1.0], [3.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, True], [False, True, True, False]])
    count = 40_000
    generator = torch.Generator().manual_seed(0)
    mean = hard_sample(scores.expand(count, 2, 4), mask, generator).mean(dim=0)
    soft = masked_softmax(scores, mask)
    assert (mean - soft).abs().max() < 5 * 0.5 / count**0.5  # five standard errors of the widest coin
    torch.testing.assert_close(mean[1], torch.tensor([0.0, 0.5, 0.5, 0.0]).double(), atol=0.02, rtol=0)


def test_a_seed_draws_the_same_again():
    scores = drawn(1, 50, 9)
    one, again = (hard_sample(scores, None, torch.Generator().manual_seed(7)) for _ in range(2))
    other = hard_sample(scores, None, torch.Generator().manual_seed(8))
    assert torch.equal(one, again) and not torch.equal(one, other)


@pytest.mark.parametrize("name", NORMALISERS)
def test_all_go_through_the_one_attend(name):
    torch.manual_seed(0)
    q, k, v = drawn(0, 4, 3), drawn(1, 5, 3), drawn(2, 5, 2)
    output, weights, _ = attend(q, k, v, normalise=NORMALISERS[name])
    torch.testing.assert_close(output, weights @ v)
    if name in HARD:
        assert all(any(torch.equal(row, value) for value in v) for row in output)


# --- sparse -----------------------------------------------------------------------------------------------


def test_sparse_weights_by_hand():
    scores = torch.tensor([[1.0, 0.5, -1.0]]).double()
    torch.testing.assert_close(sparsemax(scores), torch.tensor([[0.75, 0.25, 0.0]]).double())  # τ = 0.25
    # Two keys of halved scores ±z are kept, (z - τ)² + (z + τ)² = 1: for z = 0.3, τ = -√0.41 and weights ½ ± 2 z √0.41
    found = entmax15(torch.tensor([[0.6, -0.6, -9.0]]).double())
    difference = 2 * 0.3 * 0.41**0.5
    torch.testing.assert_close(found, torch.tensor([[0.5 + difference, 0.5 - difference, 0.0]]).double())
    torch.testing.assert_close(relu_norm(torch.tensor([[3.0, 1.0, -2.0]])), torch.tensor([[0.75, 0.25, 0.0]]))
    assert relu_norm(torch.tensor([[-3.0, -1.0]])).tolist() == [[0, 0]]
    # Two keys, and scores log 2: σ(log 2 - log 2) = 1 / 2
    torch.testing.assert_close(sigmoid(torch.full((1, 2), 2.0).log()), torch.tensor([[0.5, 0.5]]))


@given(seeds, st.sampled_from([0.3, 1.0, 5.0]), seeds)
def test_sparse_weights_maximise_what_they_are_defined_by(seed, scale, other):
    """No distribution has a larger p·s + H(p): H is (1 - Σ p²) / 2 for sparsemax and 4/3 (1 - Σ p^1.5) for entmax."""
    scores = drawn(seed, 3, 6) * scale
    other = torch.softmax(3 * drawn(other, 3, 6), dim=-1)
    for normalise, power, factor in ((sparsemax, 2.0, 0.5), (entmax15, 1.5, 4 / 3)):
        best = normalise(scores, None)
        for nearer in (0.01, 1.0):
            mixed = (1 - nearer) * best + nearer * other
            of_best, of_mixed = ((p * scores).sum(-1) + factor * (1 - p.pow(power).sum(-1)) for p in (best, mixed))
            assert (of_best >= of_mixed - 1e-12).all()


@given(st.sampled_from(SMOOTH), seeds, st.sampled_from([-50.0, 3.0, 1e4]))
def test_a_constant_added_to_a_row_changes_distributions_over_differences_only(name, seed, constant):
    scores = drawn(seed, 4, 6)
    same = torch.allclose(NORMALISERS[name](scores + constant, None), NORMALISERS[name](scores, None), atol=1e-8)
    assert same == (name not in ("relu_norm", "sigmoid"))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_the_numerical_ones_whatever_is_masked(name, seed):
    scores = drawn(seed, 4, 5).requires_grad_()
    mask = torch.rand(4, 5, generator=torch.Generator().manual_seed(seed)) < 0.7
    mask[0] = False
    for some in (None, mask):
        assert torch.autograd.gradcheck(lambda scores, some=some: NORMALISERS[name](scores, some), (scores,))


@pytest.mark.parametrize("name", HARD)
def test_hard_weights_pass_no_gradient(name):
    scores = drawn(0, 3, 4).requires_grad_()
    assert not NORMALISERS[name](scores, None).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SMOOTH)
def test_large_scores_of_every_dtype(name, dtype):
    weights = NORMALISERS[name](torch.tensor([[3e4, -3e4, 1.0], [3e4, 3e4, 3e4]], dtype=dtype), None)
    assert weights.dtype == dtype and weights.isfinite().all() and weights[0, 0] >= 0.99
    torch.testing.assert_close(weights[1], weights[1, 0].expand(3))


@pytest.mark.parametrize("name", SMOOTH)
def test_keys_behind_the_mask_change_nothing(name):
    scores = drawn(0, 3, 4)
    mask = torch.tensor([True] * 4 + [False] * 3)
    padded = torch.cat([scores, 100 + drawn(1, 3, 3)], dim=-1)
    torch.testing.assert_close(NORMALISERS[name](padded, mask)[:, :4], NORMALISERS[name](scores, None))
