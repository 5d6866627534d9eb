"""The modules that are called right are right: held against torch's own kernel, without anything of ours."""

from functools import partial

import numpy as np
import pytest
import torch
from checks.theirs.calling import MASKS, PADDINGS, Module, seen_keys, theirs
from checks.theirs.reading import (
    before,
    behind,
    by_heads,
    columns,
    expected_of,
    fused,
    head_by_head,
    interleaved,
    key_and_value_in_one,
    layers,
    nano,
    of_numpy,
    of_torch,
    one_head,
    one_numpy_head,
)
from checks.theirs.right import RIGHT
from checks.theirs.test_right_functions import FUNCTIONS
from torch import nn

pytestmark = pytest.mark.slow  # these hold the programs of the tests themselves to torch

BATCH, QUERIES, KEYS, D_MODEL, MODEL_HEADS = 2, 5, 7, 24, 4


def sized(module_class, *more, **options):
    return module_class(D_MODEL, MODEL_HEADS, *more, **options)


def heads_first(module_class):
    return module_class(MODEL_HEADS, D_MODEL)


MODULES: dict[str, Module] = {
    "MultiHeadAttention": Module(sized, layers("W_q W_k W_v W_o"), "q k v", "ones"),
    "ProjAttention": Module(sized, layers("q_proj k_proj v_proj out_proj"), "x", "added", 0),
    "EncoderSelfAttention": Module(sized, layers("self.query self.key self.value dense"), "x", "real"),
    "DimHeadAttention": Module(partial(sized, dim_head=8), key_and_value_in_one, "x memory", "bools"),
    "CrossAttention": Module(sized, layers("wq wk wv wo"), "x memory"),
    "ListOfLinears": Module(heads_first, layers("linears.0 linears.1 linears.2 linears.3"), "q k v", "allowed"),
    "LinearQ": Module(sized, layers("linear_q linear_k linear_v linear_o"), "q k v"),
    "QLinear": Module(heads_first, layers("q_linear k_linear v_linear out"), "q k v", "batched ones", 0),
    "FullyConnected": Module(
        lambda made: made(D_MODEL, D_MODEL, D_MODEL, D_MODEL, MODEL_HEADS),
        layers("fc_q fc_k fc_v fc_o"),
        "q k v",
        "lengths",
    ),
    "Projections": Module(
        partial(sized, d_keys=5, d_values=3),
        layers("query_projection key_projection value_projection out_projection"),
        "q k v",
    ),
    "UnifyHeads": Module(sized, layers("toqueries tokeys tovalues unifyheads")),
    "ValuesFirst": Module(sized, layers("queries keys values fc_out"), "v k q", "ones"),
    "Interleaved": Module(sized, interleaved),
    "GroupedQuery": Module(sized, layers("wq wk wv wo", key_heads=MODEL_HEADS // 2)),
    "MultiQuery": Module(sized, layers("Wq Wk Wv Wo", key_heads=1), "x", "allowed"),
    "ThreeHeadsDim": Module(sized, fused("qkv", "proj", "three h d")),
    "HeadsThreeDim": Module(
        lambda made: made(D_MODEL, D_MODEL, MODEL_HEADS), fused("qkv_proj", "o_proj", "h three d"), "x", "ones"
    ),
    "HeadsDimThree": Module(sized, fused("to_qkv", "to_out", "h d three"), "x", "allowed"),
    "InProjection": Module(sized, of_torch, "q k v", "padding"),
    "CausalSelfAttention": Module(
        lambda made: made(theirs("right_fused", "GPTConfig")(n_head=MODEL_HEADS, n_embd=D_MODEL)), nano, "x", "causal"
    ),
    "CausalOfContext": Module(
        lambda made: made(D_MODEL, D_MODEL, 16, 0.1, MODEL_HEADS),
        layers("W_query W_key W_value out_proj"),
        "x",
        "causal",
    ),
    "CausalColumns": Module(sized, columns, "x", "causal"),
    "Inherits": Module(sized, of_torch, "x", "forbidden"),
    "Wraps": Module(sized, lambda module: of_torch(module.attention), "x", "bools", 0),
    "MultiheadAttention": Module(partial(sized, batch_first=True), of_torch, "q k v", "padding", 0, "key_padding_mask"),
    "make_attention": Module(lambda made: made(), fused("qkv", "proj", "three h d")),
    "MatricesBehind": Module(sized, behind),
    "MatricesBefore": Module(sized, before),
    "HeadMatrices": Module(sized, by_heads, "x", "causal"),
    "HeadByHead": Module(sized, head_by_head, "x", "ones"),
    "SelfAttention": Module(lambda made: made(D_MODEL, 8), layers("W_query W_key W_value", heads=1, key_heads=1)),
    "OneHeadOfMatrix": Module(lambda made: made(D_MODEL, 8), one_head, "t", None, 0),
    "TokenFirst": Module(sized, layers("q k v o"), "token first", "added"),
    "RearrangeLayers": Module(sized, layers("query.0 key.0 value.0 output.1"), "q k v", "forbidden"),
    "NumpyAttention": Module(sized, of_numpy, "x", "allowed"),
    "NumpyHead": Module(lambda made: made(D_MODEL, 8), one_numpy_head, "t"),
}


def test_every_right_one_is_held_against_torch_and_there_are_forty() -> None:
    assert {right.name for right in RIGHT} == {*FUNCTIONS, *MODULES}
    assert len({(right.file, right.name) for right in RIGHT}) == len(RIGHT) >= 40


@pytest.mark.parametrize(
    ("file", "name", "masked"),
    [
        pytest.param(right.file, right.name, masked, id=f"{right.name}{' masked' if masked else ''}")
        for right in RIGHT
        if right.name in MODULES
        for masked in ([False, True] if MODULES[right.name].mask not in (None, "causal") else [False])
    ],
)
def test_a_module_is_what_its_weights_say(file: str, name: str, masked: bool) -> None:
    how = MODULES[name]
    torch.manual_seed(2)
    module = how.make(theirs(file, name))
    if isinstance(module, nn.Module):
        module.double().eval()
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.4)
    else:
        module.b_o = np.random.default_rng(3).normal(size=D_MODEL)
    x, memory = torch.randn(BATCH, QUERIES, D_MODEL).double(), torch.randn(BATCH, KEYS, D_MODEL).double()
    memory = memory if how.takes in ("q k v", "v k q", "x memory") else x

    mask, seen = None, None
    if how.mask == "causal":
        seen = torch.ones(QUERIES, QUERIES, dtype=torch.bool).tril()
    elif masked and how.mask in PADDINGS:
        real = torch.arange(memory.shape[1]) < torch.tensor([[3], [memory.shape[1]]])
        mask, seen = PADDINGS[how.mask](real), real[:, None, None, :]
    elif masked:
        seen = seen_keys(QUERIES, memory.shape[1])
        mask = MASKS[how.mask](seen)

    expected = expected_of(how.weights(module), x, memory, seen)
    out = how(module, x, memory, mask)
    wanted = {"t": expected[0], "token first": expected.transpose(0, 1)}.get(how.takes, expected)
    torch.testing.assert_close(out, wanted)
