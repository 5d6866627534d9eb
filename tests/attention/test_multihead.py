"""MultiHeadAttention against torch.nn.MultiheadAttention with its weights."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.attention import MultiHeadAttention, causal_mask, memory_mask, padding_mask

F64 = torch.float64


def torchs_own(mha: MultiHeadAttention, d_memory: int) -> nn.MultiheadAttention:
    """torch's module with the same numbers in it."""
    d_model, bias = mha.heads * mha.head_dim, mha.query.bias is not None
    theirs = nn.MultiheadAttention(
        d_model, mha.heads, kdim=d_memory, vdim=d_memory, bias=bias, batch_first=True, dtype=F64
    )
    parts = (mha.query, mha.key, mha.value)
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        else:
            for name, part in zip("qkv", parts, strict=True):
                getattr(theirs, f"{name}_proj_weight").copy_(part.weight)
        theirs.out_proj.weight.copy_(mha.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            theirs.out_proj.bias.copy_(mha.output.bias)
    return theirs


def gradients(theirs: nn.MultiheadAttention) -> list[Tensor]:
    """Return the gradients of the query, key, value and output weights, then of the biases, in our layout."""
    if theirs.in_proj_weight is not None:
        weights = list(theirs.in_proj_weight.grad.chunk(3))
    else:
        weights = [getattr(theirs, f"{name}_proj_weight").grad for name in "qkv"]
    weights.append(theirs.out_proj.weight.grad)
    if theirs.in_proj_bias is None:
        return weights
    return [*weights, *theirs.in_proj_bias.grad.chunk(3), theirs.out_proj.bias.grad]


@st.composite
def settings_of(draw):
    """A module, its input, a memory or None, and a mask in which every query may look somewhere."""
    heads, head_dim, batch = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    queries, d_model = draw(st.integers(1, 6)), heads * head_dim
    cross = draw(st.booleans())
    keys, d_memory = (draw(st.integers(1, 6)), draw(st.integers(1, 9))) if cross else (queries, d_model)
    bias, masked, seed = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2**32))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mha = MultiHeadAttention(d_model, heads, d_memory=d_memory, bias=bias).to(F64)
        x = torch.randn(batch, queries, d_model, dtype=F64, requires_grad=True)
        memory = torch.randn(batch, keys, d_memory, dtype=F64, requires_grad=True) if cross else None
        mask = torch.rand(batch, draw(st.sampled_from([1, heads])), queries, keys) < 0.6
        mask[..., 0] |= ~mask.any(dim=-1)
    return mha, x, memory, mask if masked else None


@given(settings_of())
@settings(max_examples=75)
def test_it_is_torchs_forward_and_gradient(case):
    mha, x, memory, mask = case
    source = x if memory is None else memory
    theirs = torchs_own(mha, source.shape[-1])
    forbidden = None if mask is None else ~mask.expand(-1, mha.heads, -1, -1).reshape(-1, *mask.shape[-2:])
    expected, expected_weights = theirs(
        x, source, source, attn_mask=forbidden, average_attn_weights=False, need_weights=True
    )
    output, weights, _ = mha(x, memory, mask)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)

    inputs = [x] if memory is None else [x, memory]
    theirs_back = torch.autograd.grad(expected.square().sum(), inputs, retain_graph=True)
    expected.square().sum().backward()
    back = torch.autograd.grad(output.square().sum(), inputs, retain_graph=True)
    output.square().sum().backward()
    torch.testing.assert_close(back, theirs_back)
    parts = (mha.query, mha.key, mha.value, mha.output)
    ours = [part.weight.grad for part in parts]
    ours += [part.bias.grad for part in parts if part.bias is not None]
    torch.testing.assert_close(ours, gradients(theirs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_near(dtype):
    torch.manual_seed(0)
    mha, x, mask = MultiHeadAttention(32, 4), torch.randn(2, 9, 32), causal_mask(9)
    exact = mha(x, mask=mask)
    with torch.inference_mode():
        output, weights, _ = mha.to(dtype)(x.to(dtype), mask=mask)
    for found, expected in ((output, exact.output), (weights, exact.weights)):
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03)


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor(True),
        torch.tensor([True, True, False, True, True]),
        causal_mask(5),
        memory_mask(causal_mask(5)),
        padding_mask(torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])),
        torch.arange(15).reshape(3, 1, 5) % 4 != 1,  # for every head another
        torch.zeros(5, 5, dtype=torch.bool),
    ],
    ids=["all", "key", "query-key", "memory", "padding", "head", "nothing"],
)
def test_a_mask_of_any_shape_that_broadcasts(mask):
    torch.manual_seed(1)
    mha, x = MultiHeadAttention(12, 3).to(F64), torch.randn(2, 5, 12, dtype=F64)
    with torch.inference_mode():
        output, weights, _ = mha(x, mask=mask)
        assert (weights[~mask.expand_as(weights)] == 0).all()
        torch.testing.assert_close(output, mha.output(mha.join_heads(weights @ mha.project(x)[2])))


def test_where_nothing_may_be_attended_to_only_the_output_bias_is_left():
    mha, x = MultiHeadAttention(8, 2), torch.randn(1, 3, 8)
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    output = mha(x, mask=nothing).output
    torch.testing.assert_close(output, mha.output.bias.expand(1, 3, 8))
    output.sum().backward()
    assert all(part.grad.isfinite().all() for part in mha.parameters() if part.grad is not None)


@pytest.mark.parametrize(("d_model", "heads"), [(10, 3), (4, 8), (8, 0), (8, -2)])
def test_heads_must_divide_the_model(d_model, heads):
    with pytest.raises(ValueError, match=rf"\b{d_model}\b.*{heads}\b"):
        MultiHeadAttention(d_model, heads)


# --- grouped and multi-query ----------------------------------------------------------------------------


@st.composite
def grouped(draw):
    """A module whose heads share keys and values in groups, its input, and a memory or None."""
    key_heads, group, head_dim = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    batch, queries, keys = (draw(st.integers(1, 5)) for _ in range(3))
    cross, bias, seed = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2**32))
    heads = key_heads * group
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mha = MultiHeadAttention(heads * head_dim, heads, bias=bias, key_heads=key_heads).to(F64)
        x = torch.randn(batch, queries, heads * head_dim, dtype=F64)
        memory = torch.randn(batch, keys, heads * head_dim, dtype=F64) if cross else None
    return mha, x, memory


@given(grouped())
def test_grouped_heads_are_torchs(case):
    mha, x, memory = case
    source = x if memory is None else memory
    query, key, value = (
        mha.split_heads(mha.query(x)),
        mha.split_heads(mha.key(source)),
        mha.split_heads(mha.value(source)),
    )
    assert key.shape[1] == value.shape[1] == mha.key_heads
    output = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    torch.testing.assert_close(mha(x, memory).output, mha.output(output.transpose(1, 2).flatten(-2)))


@pytest.mark.parametrize(("heads", "key_heads"), [(6, 4), (2, 3), (4, 0), (4, -2)])
def test_key_heads_must_divide_the_heads(heads, key_heads):
    with pytest.raises(ValueError, match=rf"{heads} heads can't share {key_heads} key heads"):
        MultiHeadAttention(4 * heads, heads, key_heads=key_heads)
