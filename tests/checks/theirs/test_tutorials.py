"""What is said of the tutorials' listings is so, by torch's own kernel."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from checks.theirs import tutorials
from checks.theirs.reading import expected_of, layers
from checks.theirs.tutorials import TUTORIALS

pytestmark = pytest.mark.slow  # these hold the programs of the tests themselves to torch

X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.manual_seed(0))
MEMORY = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.manual_seed(1))
REAL = torch.arange(7) < torch.tensor([[3], [7]])
LOWER = torch.ones(5, 7, dtype=torch.bool).tril()
read = layers("W_Q W_K W_V W_O", heads=3, key_heads=3)


def made(name: str):
    return getattr(tutorials, name)(12, 3).double()


def test_all_that_stands_in_the_list_is_there() -> None:
    assert all(hasattr(tutorials, tutorial.name) for tutorial in TUTORIALS)


@torch.no_grad()
def test_the_first_listing_takes_a_mask_and_never_uses_it() -> None:
    across, alone = made("FirstMultiHeadAttention"), made("FirstSelfAttention")
    torch.testing.assert_close(across(X, MEMORY, MEMORY), expected_of(read(across), X, MEMORY))
    assert torch.equal(across(X, MEMORY, MEMORY, LOWER), across(X, MEMORY, MEMORY))
    torch.testing.assert_close(alone(X, LOWER[:, :5]), expected_of(read(alone), X, X))


@torch.no_grad()
def test_the_complete_listing_is_right_and_gives_nan_where_nothing_may_be_seen() -> None:
    across, alone = made("CompleteMultiHeadAttention"), made("CompleteSelfAttention")
    both = LOWER & REAL[:, None, None, :]
    torch.testing.assert_close(across(X, MEMORY, MEMORY, REAL, LOWER), expected_of(read(across), X, MEMORY, both))
    torch.testing.assert_close(alone(X, None, LOWER[:, :5]), expected_of(read(alone), X, X, LOWER[:, :5]))
    nothing = REAL & torch.tensor([[True], [False]])
    out = across(X, MEMORY, MEMORY, nothing)
    assert out[0].isfinite().all() and out[1].isnan().all()


def of_arrays(q, k, v, mask=None):
    given = (None if one is None else one.numpy() for one in (q, k, v, mask))
    return torch.as_tensor(tutorials.scaled_dot_product_attention_of_arrays(*given)[0])


def of_tensors(q, k, v, mask=None):
    return tutorials.scaled_dot_product_attention(q, k, v, mask)[0]


@pytest.mark.parametrize("attention", [of_arrays, of_tensors])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_listing_with_a_great_number_is_right_but_where_nothing_may_be_seen(attention, dtype) -> None:
    q, k = X.to(dtype), MEMORY.to(dtype)
    hidden = (~LOWER).to(dtype)
    torch.testing.assert_close(attention(q, k, k), F.scaled_dot_product_attention(q, k, k), check_dtype=False)
    expected = F.scaled_dot_product_attention(q, k, k, LOWER)
    torch.testing.assert_close(attention(q, k, k, hidden), expected, check_dtype=False)
    hidden[0] = 1
    assert attention(q, k, k, hidden)[:, 0].isfinite().all()


def test_the_great_number_swallows_the_scores_in_float32() -> None:
    q, k = X.float(), MEMORY.float()
    out = of_tensors(q, k, k, torch.ones(5, 7))
    torch.testing.assert_close(out, k.mean(1, keepdim=True).expand_as(out))


@torch.no_grad()
def test_bahdanau_is_what_its_formula_says() -> None:
    attention = tutorials.BahdanauAttention(12, 8).double()
    context, weights = attention(X[:, 0], MEMORY)
    w1, b1, w2, b2, v, c = (one.numpy() for one in attention.parameters())
    for text in range(2):
        query, values = X[text, 0].numpy(), MEMORY[text].numpy()
        scores = np.array([float((v @ np.tanh(w1 @ value + b1 + w2 @ query + b2) + c)[0]) for value in values])
        share = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(weights[text, :, 0].numpy(), share)
        np.testing.assert_allclose(context[text].numpy(), share @ values)
