"""Feed-forward networks and RMSNorm against torch's own, the papers' formulas, and each other."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.attention import FeedForward, GatedFeedForward, RMSNorm, TransformerEncoderLayer

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


@given(sizes, seeds)
def test_layer_norm_is_rms_norm_of_what_is_centred(d_model, seed):
    x = randn(seed, 3, d_model)
    norm = RMSNorm(d_model, eps=1e-5).to(F64)
    torch.testing.assert_close(norm(x - x.mean(dim=-1, keepdim=True)), F.layer_norm(x, (d_model,), eps=1e-5))


@given(sizes, seeds, st.floats(-3, 3))
def test_the_length_of_x_does_not_matter_and_its_direction_stays(d_model, seed, exponent):
    x, norm = randn(seed, 3, d_model), RMSNorm(d_model, eps=0.0).to(F64)
    torch.testing.assert_close(norm(10**exponent * x), norm(x))
    torch.testing.assert_close(F.cosine_similarity(norm(x), x, dim=-1), torch.ones(3, dtype=F64))
    torch.testing.assert_close(norm(x).square().mean(dim=-1), torch.ones(3, dtype=F64))


def test_rms_norm_by_hand():
    norm = RMSNorm(2, eps=0.0)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([5.0, 10.0]))
    assert norm(torch.tensor([[1.0, 7.0]])).tolist() == [[1.0, 14.0]]  # RMS is 5
    assert RMSNorm(3)(torch.zeros(1, 3)).tolist() == [[0.0, 0.0, 0.0]]


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


@given(sizes, sizes, seeds)
def test_with_sigmoid_it_is_torchs_gated_linear_unit(d_model, d_hidden, seed):
    """torch's GLU opens the first half with the second."""
    torch.manual_seed(seed)
    network = GatedFeedForward(d_model, d_hidden, torch.sigmoid).to(F64)
    x = randn(seed, 2, 3, d_model)
    opened, values = network.up(x).chunk(2, dim=-1)
    torch.testing.assert_close(network(x), network.down(F.glu(torch.cat([values, opened], dim=-1))))


@given(sizes, sizes, seeds)
def test_with_values_of_1_it_is_the_plain_one(d_model, d_hidden, seed):
    torch.manual_seed(seed)
    plain, gated = FeedForward(d_model, d_hidden, F.gelu).to(F64), GatedFeedForward(d_model, d_hidden).to(F64)
    with torch.no_grad():
        gated.up.weight.copy_(torch.cat([plain.up.weight, torch.zeros_like(plain.up.weight)]))
        gated.up.bias.copy_(torch.cat([plain.up.bias, torch.ones_like(plain.up.bias)]))
    gated.down = plain.down
    x = randn(seed, 2, 3, d_model)
    torch.testing.assert_close(gated(x), plain(x))


def test_plain_is_relu_between_two_projections_and_another_function_if_told():
    torch.manual_seed(0)
    network, x = FeedForward(4, 6).to(F64), randn(0, 3, 4)
    torch.testing.assert_close(network(x), network.down(network.up(x).clamp(min=0)))
    network.function = F.silu
    torch.testing.assert_close(network(x), network.down(F.silu(network.up(x))))


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_another_linear_layer_is_used_for_both_and_biases_may_be_left_out(kind):
    class Own(nn.Linear):
        pass

    network = kind(4, 6, bias=False, linear=Own)
    assert [type(part) for part in (network.up, network.down)] == [Own, Own]
    assert network.up.bias is None and network.down.bias is None
    assert network.down.in_features == 6


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


@given(seeds)
def test_what_pre_norm_sublayers_add_does_not_depend_on_the_length_of_x(seed):
    """Xiong et al. 2020, figure 1: the residual connection goes round both norms."""
    torch.manual_seed(seed)
    layer = TransformerEncoderLayer(8, 2, norm_first=True, norm=lambda d_model: RMSNorm(d_model, eps=0.0)).to(F64)
    nn.init.zeros_(layer.feed_forward.down.weight)
    nn.init.zeros_(layer.feed_forward.down.bias)
    x = randn(seed, 1, 3, 8)
    torch.testing.assert_close(layer(100 * x).output - 100 * x, layer(x).output - x, rtol=1e-7, atol=1e-9)
