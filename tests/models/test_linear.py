"""The encoder's linear layer against torch's, with and without oneDNN."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attncli.models.network import Linear

ACTIVATIONS = {
    "none": nn.Identity(),
    "gelu": nn.GELU(),
    "gelu_new": nn.GELU(approximate="tanh"),
    "gelu_pytorch_tanh": nn.GELU(approximate="tanh"),
    "relu": nn.ReLU(),
    "silu": nn.SiLU(),
    "swish": nn.SiLU(),
}
sizes = st.integers(1, 70)


def filled(module, dtype=torch.float32):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.to(dtype)


@given(
    leading=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    inputs=sizes,
    outputs=sizes,
    bias=st.booleans(),
    activation=st.sampled_from(list(ACTIVATIONS)),
    seed=st.integers(0, 2**32),
)
def test_it_is_torchs_in_every_mode(leading, inputs, outputs, bias, activation, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        linear = filled(Linear(inputs, outputs, bias=bias, activation=activation))
        x = torch.randn(*leading, inputs)
    product = F.linear(x.double(), linear.weight.double(), None if linear.bias is None else linear.bias.double())
    exact = ACTIVATIONS[activation](product)
    with torch.inference_mode():
        by_onednn = linear(x)
        linear.pack()
        by_packed = linear(x)
    for found in (by_onednn, by_packed, linear(x)):
        assert found.shape == (*leading, outputs)
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_take_torchs_path(dtype):
    torch.manual_seed(0)
    linear, x = filled(Linear(9, 5), dtype), torch.randn(2, 9, dtype=dtype)
    with torch.inference_mode():
        assert torch.equal(linear(x), F.linear(x, linear.weight, linear.bias))
