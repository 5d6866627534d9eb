"""Feed-forward networks, norms and layers against torch's own, forward and gradient."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.attention import (
    SCORES,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    RMSNorm,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    causal_mask,
    combine_masks,
    memory_mask,
    padding_mask,
)

F64 = torch.float64
sizes = st.integers(1, 7)
seeds = st.integers(0, 999)


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# --- RMSNorm --------------------------------------------------------------------------------------------


@given(st.lists(sizes, max_size=2), sizes, seeds, st.sampled_from([1e-12, 1e-6, 1e-2]), st.floats(-4, 4))
def test_rms_norm_is_torchs(leading, d_model, seed, eps, exponent):
    ours, theirs = RMSNorm(d_model, eps).to(F64), nn.RMSNorm(d_model, eps).to(F64)
    with torch.no_grad():
        ours.weight.copy_(randn(seed, d_model))
    theirs.load_state_dict(ours.state_dict())
    x = (10**exponent * randn(seed + 1, *leading, d_model)).requires_grad_()
    found, expected = ours(x), theirs(x)
    torch.testing.assert_close(found, expected)
    back = [torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(*back, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_in_half_precision_do_not_overflow(dtype):
    x = torch.full((1, 8), 1000.0, dtype=dtype)
    assert RMSNorm(8).to(dtype)(x).tolist() == [[1.0] * 8]


# --- feed-forward ---------------------------------------------------------------------------------------


@given(sizes, sizes, seeds, st.booleans(), st.sampled_from([torch.relu, F.gelu, F.silu, torch.sigmoid, torch.tanh]))
def test_gated_is_the_papers_formula(d_model, d_hidden, seed, bias, function):
    """Shazeer 2020, equations 5 and 6, element by element."""
    torch.manual_seed(seed)
    network = GatedFeedForward(d_model, d_hidden, function, bias).to(F64)
    x = randn(seed, d_model)
    up, down = network.up.weight, network.down.weight
    b = network.up.bias if bias else torch.zeros(2 * d_hidden, dtype=F64)
    hidden = []
    for unit in range(d_hidden):
        opened = function((up[unit] * x).sum() + b[unit])
        value = (up[d_hidden + unit] * x).sum() + b[d_hidden + unit]
        hidden.append(opened * value)
    expected = torch.stack([(row * torch.stack(hidden)).sum() for row in down])
    torch.testing.assert_close(network(x), expected + network.down.bias if bias else expected)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
@pytest.mark.parametrize(("bias", "down_bias"), [(True, False), (False, True), (True, None), (False, None)])
def test_the_second_projection_may_differ_in_its_bias(kind, bias, down_bias):
    made = kind(6, 10, bias=bias, down_bias=down_bias)
    assert (made.up.bias is not None) == bias
    assert (made.down.bias is not None) == (bias if down_bias is None else down_bias)


# --- in a layer -----------------------------------------------------------------------------------------


@given(seeds, st.booleans())
def test_a_layer_of_these_parts_is_written_out(seed, norm_first):
    torch.manual_seed(seed)
    layer = TransformerEncoderLayer(8, 2, 6, norm_first, feed_forward=GatedFeedForward, norm=RMSNorm).to(F64)
    for norm in (layer.attention_norm, layer.feed_forward_norm):
        nn.init.normal_(norm.weight)
    x = randn(seed, 2, 3, 8)
    first, second = (
        lambda x, norm=norm: F.rms_norm(x, (8,), norm.weight, 1e-6)
        for norm in (layer.attention_norm, layer.feed_forward_norm)
    )
    if norm_first:
        between = x + layer.attention(first(x)).output
        expected = between + layer.feed_forward(second(between))
    else:
        between = first(x + layer.attention(x).output)
        expected = second(between + layer.feed_forward(between))
    torch.testing.assert_close(layer(x).output, expected)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    parts = zip(
        (ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
    )
    for linear, weight, bias in parts:
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@torch.no_grad()
def copy_layer(ours, theirs) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if isinstance(ours, TransformerDecoderLayer):
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for number, norm in enumerate(norms, start=1):
        norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())
    ours.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down.load_state_dict(theirs.linear2.state_dict())


def pair(ours, theirs, heads, d_hidden, norm_first, seed):
    torch.manual_seed(seed)
    d_model = 4 * heads
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    other = theirs(d_model, heads, d_hidden, **options).double()
    for parameter in other.parameters():  # LayerNorms and biases that do something
        nn.init.normal_(parameter, std=0.5)
    mine = ours(d_model, heads, d_hidden, norm_first=norm_first).double()
    copy_layer(mine, other)
    return mine, other, d_model


layers = {
    "heads": st.integers(1, 3),
    "d_hidden": st.integers(1, 9),
    "norm_first": st.booleans(),
    "seed": st.integers(0, 999),
    "batch": st.integers(1, 3),
    "length": st.integers(1, 6),
}


@given(**layers)
@settings(max_examples=30)
def test_an_encoder_layer_is_torchs(heads, d_hidden, norm_first, seed, batch, length):
    mine, other, d_model = pair(TransformerEncoderLayer, nn.TransformerEncoderLayer, heads, d_hidden, norm_first, seed)
    x = torch.randn(batch, length, d_model, dtype=torch.float64, requires_grad=True)
    real = torch.rand(batch, length) < 0.7
    real[:, 0] = True
    found = mine(x, padding_mask(real))
    expected = other(x, src_key_padding_mask=~real)
    torch.testing.assert_close(found.output, expected)
    assert found.attention.weights.shape == (batch, heads, length, length)
    [one] = torch.autograd.grad(found.output.square().sum(), x)
    [two] = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(one, two)


@given(**layers, keys=st.integers(1, 6))
@settings(max_examples=30)
def test_a_decoder_layer_is_torchs(heads, d_hidden, norm_first, seed, batch, length, keys):
    mine, other, d_model = pair(TransformerDecoderLayer, nn.TransformerDecoderLayer, heads, d_hidden, norm_first, seed)
    x = torch.randn(batch, length, d_model, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(batch, keys, d_model, dtype=torch.float64, requires_grad=True)
    real = torch.rand(batch, keys) < 0.7
    real[:, 0] = True
    may = torch.rand(length, keys) < 0.7
    may[:, 0] = True
    found = mine(x, memory, causal_mask(length), combine_masks(padding_mask(real), memory_mask(may)))
    expected = other(x, memory, ~causal_mask(length), ~may, memory_key_padding_mask=~real)
    torch.testing.assert_close(found.output, expected)
    assert found.attention.weights.shape == (batch, heads, length, length)
    assert found.cross.weights.shape == (batch, heads, length, keys)
    for one, two in zip(
        torch.autograd.grad(found.output.square().sum(), (x, memory)),
        torch.autograd.grad(expected.square().sum(), (x, memory)),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_memory_may_have_vectors_of_another_size(norm_first):
    layer = TransformerDecoderLayer(8, 2, norm_first=norm_first, d_memory=5)
    found = layer(torch.randn(2, 3, 8), torch.randn(2, 4, 5), causal_mask(3))
    assert found.output.shape == (2, 3, 8) and found.cross.weights.shape == (2, 2, 3, 4)
    assert layer.feed_forward.up.out_features == 32  # 4 d_model


@pytest.mark.parametrize("name", SCORES)
def test_a_layer_takes_any_score(name):
    torch.manual_seed(0)
    layer = TransformerEncoderLayer(8, 2, score=SCORES[name](4))
    found = layer(torch.randn(2, 5, 8), causal_mask(5))
    assert (found.attention.weights.triu(1) == 0).all()
    torch.testing.assert_close(found.attention.weights.sum(dim=-1), torch.ones(2, 2, 5))
    found.output.square().sum().backward()
    untouched = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
    assert untouched == (["attention.key.weight", "attention.key.bias"] if name == "location" else [])
