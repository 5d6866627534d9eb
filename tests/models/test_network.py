"""Our networks against transformers (eager), on small random ones of every family; our linear layer against torch's."""

import pytest
import torch
import torch.nn.functional as F
from checkpoints import EVERY, FAMILIES, PECULIAR, TURNED
from checkpoints import OWN as CHANGES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from walks import close, run_both
from ways import OWN, own_peers

from attncli.features.compare.ways import compare_ways
from attncli.models import families
from attncli.models.network import Linear

pytestmark = pytest.mark.usefixtures("exact")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    """Under the other masks and in float32: `tests/features/compare/test_ways.py`."""
    ours, theirs = run_both(family, "padding")
    close(ours, theirs, 1e-12, 1e-11)


@pytest.mark.parametrize("family", PECULIAR)
def test_what_taps_keep_and_change_is_that_of_transformers(tiny, family):
    """The quick ways of the matrix of ways and families, all of which are gone in the same place."""
    ways = ("norms", "without", "vectors", "instant", "one head apart")
    found = list(compare_ways(own_peers(tiny(family), pad_to=30), {name: OWN[name] for name in ways}))
    assert all(way.same for way in found), found


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
@given(data=st.data())
@settings(max_examples=15)
def test_whatever_the_shape(family, data):
    draw = data.draw
    heads = draw(st.integers(1, 5), label="heads")
    head_dims = st.sampled_from([4, 8]) if family in TURNED else st.integers(1, 7)
    changes = {
        "num_attention_heads": heads,
        "hidden_size": heads * draw(head_dims, label="head_dim"),
        "num_hidden_layers": draw(st.integers(1, 4), label="layers"),
        "intermediate_size": draw(st.integers(1, 40), label="intermediate_size"),
        "hidden_act": draw(st.sampled_from(["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"])),
        "max_position_embeddings": draw(st.integers(20, 40), label="positions"),
        "pad_token_id": draw(st.integers(0, 6), label="pad_token_id"),
    }
    if "num_key_value_heads" in CHANGES.get(family, {}):
        divisors = [count for count in range(1, heads + 1) if heads % count == 0]
        changes["num_key_value_heads"] = draw(st.sampled_from(divisors), label="key heads")
    if family != "distilbert":
        changes["layer_norm_eps"] = draw(st.sampled_from([1e-12, 1e-5, 1e-2]))
        changes["type_vocab_size"] = draw(st.integers(1, 4), label="segments")
    if "embedding_size" in families.find_family(family).types[family]:
        changes["embedding_size"] = draw(st.sampled_from([changes["hidden_size"], 3, 30]))
    if family == "albert":
        changes["num_hidden_groups"] = draw(st.integers(1, changes["num_hidden_layers"]), label="groups")
        changes["inner_group_num"] = draw(st.integers(1, 2), label="inner")
    ours, theirs = run_both(
        family,
        draw(st.sampled_from(["none", "padding", "causal"]), label="mask"),
        seed=draw(st.integers(0, 2**32), label="seed"),
        batch=draw(st.integers(1, 3), label="batch"),
        length=draw(st.integers(3, 12), label="length"),
        **changes,
    )
    close(ours, theirs, 1e-9, 1e-8)


# --- the linear layer ------------------------------------------------------------------------------------


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
