"""What the weights of attention as people write it are, by their names; and what attention with these weights gives."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


class Weights(NamedTuple):
    """Of a module: matrix [out, in] and bias (or None) for query, key, value, and output (or None)."""

    query: tuple
    key: tuple
    value: tuple
    output: tuple | None
    heads: int = 4
    key_heads: int = 4


def expected_of(weights: Weights, x, memory, seen=None) -> torch.Tensor:
    """Multi-head attention of x to memory, [batch, token, d_model]."""
    q = F.linear(x, *weights.query).unflatten(-1, (weights.heads, -1)).transpose(1, 2)
    k = F.linear(memory, *weights.key).unflatten(-1, (weights.key_heads, -1)).transpose(1, 2)
    v = F.linear(memory, *weights.value).unflatten(-1, (weights.key_heads, -1)).transpose(1, 2)
    gqa = weights.key_heads != weights.heads
    joined = F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=gqa).transpose(1, 2).flatten(2)
    return joined if weights.output is None else F.linear(joined, *weights.output)


def layers(names: str, **numbers) -> Callable:
    """The weights of four layers (or three), by their names."""

    def read(module: nn.Module) -> Weights:
        found = [module.get_submodule(name) for name in names.split()]
        four = [(layer.weight, layer.bias) for layer in found]
        return Weights(*four[:3], four[3] if len(four) == 4 else None, **numbers)

    return read


def fused(name: str, output: str, order: str) -> Callable:
    """The weights of a layer with three in one, its rows in this order, and of the one behind."""

    def read(module: nn.Module) -> Weights:
        both, last = module.get_submodule(name), module.get_submodule(output)
        sizes = {"three": 3, "h": getattr(module, "num_heads", None) or module.heads}
        w = rearrange(both.weight, f"({order}) m -> three (h d) m", **sizes)
        b = [None] * 3 if both.bias is None else rearrange(both.bias, f"({order}) -> three (h d)", **sizes)
        return Weights(*zip(w, b, strict=True), (last.weight, last.bias), heads=sizes["h"], key_heads=sizes["h"])

    return read


def columns(module: nn.Module) -> Weights:
    """GPT-2's, [in, out]."""
    w, b = module.c_attn.weight.T, module.c_attn.bias
    last = (module.c_proj.weight.T, module.c_proj.bias)
    return Weights(*zip(w.chunk(3), b.chunk(3), strict=True), last)


def of_torch(module: nn.MultiheadAttention) -> Weights:
    w, b = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    return Weights(*zip(w, b, strict=True), (module.out_proj.weight, module.out_proj.bias))


def key_and_value_in_one(module: nn.Module) -> Weights:
    k, v = module.to_kv.weight.chunk(2)
    return Weights((module.to_q.weight,), (k,), (v,), (module.to_out[0].weight, module.to_out[0].bias))


def nano(module: nn.Module) -> Weights:
    w, b = module.c_attn.weight.chunk(3), module.c_attn.bias.chunk(3)
    return Weights(*zip(w, b, strict=True), (module.c_proj.weight, module.c_proj.bias))


def interleaved(module: nn.Module) -> Weights:
    order = torch.arange(module.lin_q.out_features).view(-1, module.num_heads).T.flatten()
    rows = [(layer.weight[order], layer.bias[order]) for layer in (module.lin_q, module.lin_k, module.lin_v)]
    return Weights(*rows, (module.lin_out.weight[:, order], module.lin_out.bias))


def behind(module) -> Weights:
    return Weights(*((torch.as_tensor(w).T,) for w in (module.W_Q, module.W_K, module.W_V, module.W_O)))


def of_numpy(module) -> Weights:
    q, k, v, o = (torch.as_tensor(w).T for w in (module.W_q, module.W_k, module.W_v, module.W_o))
    return Weights((q,), (k,), (v,), (o, torch.as_tensor(module.b_o)))


def before(module) -> Weights:
    matrices = (module.query, module.key, module.value, module.output)
    biases = (module.query_bias, module.key_bias, module.value_bias, module.output_bias)
    return Weights(*((w, b[:, 0]) for w, b in zip(matrices, biases, strict=True)))


def by_heads(module) -> Weights:
    three = zip((module.W_Q, module.W_K, module.W_V), (module.b_Q, module.b_K, module.b_V), strict=True)
    rows = [(rearrange(w, "n m h -> (n h) m"), b.flatten()) for w, b in three]
    return Weights(*rows, (rearrange(module.W_O, "n h m -> m (n h)"), module.b_O))


def head_by_head(module) -> Weights:
    three = [(torch.cat([getattr(h, name).weight for h in module.heads]),) for name in ("query", "key", "value")]
    return Weights(*three, (module.proj.weight, module.proj.bias))


def one_head(module) -> Weights:
    return Weights(*((w.T,) for w in (module.W_query, module.W_key, module.W_value)), None, 1, 1)


def one_numpy_head(module) -> Weights:
    return Weights(*((torch.as_tensor(w),) for w in (module.Wq, module.Wk, module.Wv)), None, 1, 1)
