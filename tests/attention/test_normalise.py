"""From scores to weights, soft and hard."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import NORMALISERS, attend, hard_max, hard_sample, masked_softmax

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(
    st.sampled_from(sorted(NORMALISERS)),
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
    torch.testing.assert_close(weights.sum(dim=-1), mask.any(dim=-1).double())


@given(seeds, sizes, sizes)
def test_without_a_mask_everything_may_be_attended_to(seed, queries, keys):
    scores = drawn(seed, queries, keys)
    for normalise in (masked_softmax, hard_max):
        torch.testing.assert_close(normalise(scores, None), normalise(scores, torch.ones(queries, keys, dtype=bool)))


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


@given(seeds)
def test_hard_max_looks_at_the_key_with_the_highest_weight(seed):
    scores = drawn(seed, 3, 5)
    assert torch.equal(hard_max(scores).argmax(dim=-1), masked_softmax(scores).argmax(dim=-1))
    assert set(hard_max(scores).flatten().tolist()) <= {0.0, 1.0}


def test_of_several_highest_keys_the_first_is_taken():
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [[0, 1, 0]]
    assert hard_max(torch.tensor([[1.0, 3.0, 3.0]]), torch.tensor([True, False, True])).tolist() == [[0, 0, 1]]


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
    if name != "softmax":
        assert all(any(torch.equal(row, value) for value in v) for row in output)
