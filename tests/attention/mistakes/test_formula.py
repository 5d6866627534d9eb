"""The formula step by step gives what `MultiHeadAttention`, `attend` and torch's own kernel give."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import MultiHeadAttention, attend, causal_mask, combine_masks, padding_mask
from attncli.attention.mistakes import RIGHT, Affine, Inputs, Masking, Projections

F64 = torch.float64
SIZES = st.integers(1, 5)


@st.composite
def seen(draw, batch: int, heads: int, queries: int, keys: int) -> Masking:
    """Masks of all kinds, also such that leave a query nothing."""
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    padding = torch.rand(batch, keys, generator=random) < 0.7 if draw(st.booleans()) else None
    shape = draw(st.sampled_from([(queries, keys), (batch, 1, queries, keys), (batch, heads, queries, keys)]))
    pairs = torch.rand(shape, generator=random) < 0.6 if draw(st.booleans()) else None
    return Masking(padding, draw(st.booleans()), pairs)


def mask_of(seen: Masking, queries: int, keys: int) -> Tensor | None:
    return combine_masks(
        causal_mask(queries, keys) if seen.causal else None,
        None if seen.padding is None else padding_mask(seen.padding),
        seen.pairs,
    )


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def projections_of(mha: MultiHeadAttention) -> Projections:
    parts = (mha.query, mha.key, mha.value, mha.output)
    return Projections(*(Affine(part.weight, part.bias) for part in parts))


@given(st.data())
def test_with_projections_it_is_multi_head_attention(data):
    batch, queries, keys, head_dim, key_heads, group = (data.draw(SIZES) for _ in range(6))
    heads, crosses = key_heads * group, data.draw(st.booleans())
    keys = keys if crosses else queries
    d_memory = data.draw(st.integers(1, 9)) if crosses else heads * head_dim
    with torch.random.fork_rng():
        torch.manual_seed(data.draw(st.integers(0, 2**32)))
        mha = MultiHeadAttention(
            heads * head_dim, heads, d_memory=d_memory, bias=data.draw(st.booleans()), key_heads=key_heads
        ).to(F64)
    x, memory = numbers(batch, queries, heads * head_dim, seed=1), numbers(batch, keys, d_memory, seed=2)
    memory = memory if crosses else x
    hidden = data.draw(seen(batch, heads, queries, keys))
    expected = mha(x, memory, mask_of(hidden, queries, keys))
    found = RIGHT(Inputs(x, memory, memory, heads, projections_of(mha), hidden))
    torch.testing.assert_close(found.output, expected.output)
    torch.testing.assert_close(found.weights, expected.weights)
    nowhere = (expected.weights == 0).all(-1)
    assert (found.nowhere is None and not nowhere.any()) or torch.equal(found.nowhere, nowhere)


@given(st.data())
def test_of_heads_it_is_attend_and_torchs_kernel(data):
    batch, queries, keys, d_k, d_v, key_heads, group = (data.draw(SIZES) for _ in range(7))
    heads = key_heads * group
    query, key, value = (
        numbers(batch, n, tokens, size, seed=seed)
        for seed, (n, tokens, size) in enumerate(
            ((heads, queries, d_k), (key_heads, keys, d_k), (key_heads, keys, d_v))
        )
    )
    hidden = data.draw(seen(batch, heads, queries, keys))
    mask = mask_of(hidden, queries, keys)
    found = RIGHT(Inputs(query, key, value, heads, seen=hidden))
    expected = attend(query, *(x.repeat_interleave(group, dim=1) for x in (key, value)), mask)
    torch.testing.assert_close(found.output, expected.output)
    torch.testing.assert_close(found.weights, expected.weights)
    torchs = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True).nan_to_num()
    torch.testing.assert_close(found.output, torchs)


def test_without_an_output_projection_the_joined_heads_are_the_output():
    mha = MultiHeadAttention(6, 2).to(F64)
    x = numbers(1, 3, 6, seed=0)
    by = projections_of(mha)
    joined = RIGHT(Inputs(x, x, x, 2, by._replace(output=None))).output
    torch.testing.assert_close(by.output(joined), mha(x).output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softmax_is_computed_in_float32_where_numbers_are_halves(dtype):
    query, key, value = (numbers(2, 2, 40, 8, seed=seed).to(dtype) for seed in range(3))
    found = RIGHT(Inputs(query, key, value, 2)).weights
    scores = (query @ key.mT) / 8**0.5
    assert found.dtype == dtype and torch.equal(found, torch.softmax(scores.float(), -1).to(dtype))
