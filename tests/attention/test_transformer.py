"""The layers of encoder and decoder against torch's own, forward and gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attncli.attention import (
    SCORES,
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    causal_mask,
    combine_masks,
    memory_mask,
    padding_mask,
)


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


def test_the_weights_of_a_decoder_layer_are_those_that_torch_tells():
    mine, other, d_model = pair(TransformerDecoderLayer, nn.TransformerDecoderLayer, 2, 8, False, 0)
    x, memory = torch.randn(1, 3, d_model).double(), torch.randn(1, 5, d_model).double()
    found = mine(x, memory, causal_mask(3))
    _, weights = other.self_attn(x, x, x, attn_mask=~causal_mask(3), average_attn_weights=False)
    torch.testing.assert_close(found.attention.weights, weights)
    between = other.norm1(x + other.self_attn(x, x, x, attn_mask=~causal_mask(3))[0])
    _, weights = other.multihead_attn(between, memory, memory, average_attn_weights=False)
    torch.testing.assert_close(found.cross.weights, weights)


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


def test_the_future_of_a_decoder_changes_nothing_before_it():
    torch.manual_seed(0)
    layer = TransformerDecoderLayer(8, 2)
    x, memory = torch.randn(1, 6, 8), torch.randn(1, 4, 8)
    whole, start = (layer(y, memory, causal_mask(y.shape[1])).output for y in (x, x[:, :3]))
    torch.testing.assert_close(whole[:, :3], start)
