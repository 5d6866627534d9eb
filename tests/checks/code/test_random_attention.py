"""A random search: attention in a random style is right, and with a random mistake in it wrong."""

import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attncli.checks.code.check import check

pytestmark = pytest.mark.slow

STYLES = st.fixed_dictionaries(
    {
        "fused": st.booleans(),
        "bias": st.booleans(),
        "tokens_first": st.booleans(),
        "turns": st.booleans(),  # heads take turns in the vectors
        "float32": st.booleans(),  # softmax in float32, whatever it is given
        "causal": st.booleans(),
        "key_heads": st.sampled_from([2, 4]),
        "mask": st.sampled_from([None, "allowed", "forbidden", "added"]),
        "hidden": st.sampled_from([-math.inf, -1e9, "least"]),
        "weights": st.booleans(),  # returns them too
    }
)
# What each changes, and what it takes for it to be one.
MISTAKES: dict[str, Any] = {
    "scale": lambda style: True,
    "temperature": lambda style: True,
    "keys as values": lambda style: True,
    "queries": lambda style: True,
    "all heads": lambda style: True,
    "joined": lambda style: True,
    "repeat": lambda style: style["key_heads"] == 2,
    "ahead": lambda style: style["causal"],
    "unmasked": lambda style: style["mask"] is not None,
    "first text": lambda style: style["mask"] is not None,
    "after": lambda style: style["mask"] is not None,
    "output": lambda style: style["bias"],
    "in place": lambda style: True,
}


def attention(style: dict[str, Any], mistake: str | None) -> type[nn.Module]:
    """Make the class of a style, with a mistake or without."""

    class Attention(nn.Module):
        def __init__(self, d_model: int, num_heads: int) -> None:
            super().__init__()
            self.num_heads, self.key_heads = num_heads, min(num_heads, style["key_heads"])
            size, bias = d_model // num_heads, style["bias"]
            if style["fused"] and self.key_heads == num_heads:
                self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
            else:
                self.q_proj = nn.Linear(d_model, d_model, bias=bias)
                self.k_proj = nn.Linear(d_model, self.key_heads * size, bias=bias)
                self.v_proj = nn.Linear(d_model, self.key_heads * size, bias=bias)
            self.out_proj = nn.Linear(d_model, d_model, bias=bias)

        def split(self, x: Tensor, heads: int) -> Tensor:
            if style["turns"] and heads == self.num_heads == self.key_heads:
                return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)
            return x.unflatten(-1, (heads, -1)).transpose(1, 2)

        def joined(self, x: Tensor) -> Tensor:
            if mistake == "joined":
                return x.reshape(x.shape[0], x.shape[2], -1)
            if style["turns"] and self.num_heads == self.key_heads:
                return x.permute(0, 2, 3, 1).flatten(-2)
            return x.transpose(1, 2).flatten(-2)

        def attend(self, x: Tensor, mask: Tensor | None) -> Any:
            x = x.transpose(0, 1) if style["tokens_first"] else x
            if mistake == "in place":
                x = x.mul_(2.0).div_(4.0)
            fused = style["fused"] and self.key_heads == self.num_heads
            q, k, v = self.qkv(x).chunk(3, -1) if fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
            q, k, v = self.split(q, self.num_heads), self.split(k, self.key_heads), self.split(v, self.key_heads)
            many = self.num_heads // self.key_heads
            if mistake == "repeat":
                k, v = k.repeat(1, many, 1, 1), v.repeat(1, many, 1, 1)
            else:
                k, v = k.repeat_interleave(many, 1), v.repeat_interleave(many, 1)
            scores = q @ k.mT / (x.shape[-1] if mistake == "scale" else q.shape[-1]) ** 0.5
            scores = scores * 1.1 if mistake == "temperature" else scores
            least = torch.finfo(scores.dtype).min if style["hidden"] == "least" else style["hidden"]
            if style["causal"]:
                shown = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(1 if mistake == "ahead" else 0)
                scores = scores.masked_fill(~shown, -math.inf)
            if mask is not None and mistake == "first text":
                mask = mask[:1]
            hides = mask is not None and mistake not in ("unmasked", "after")
            if hides and style["mask"] == "added":
                scores = scores + mask
            elif hides:
                scores = scores.masked_fill(~mask if style["mask"] == "allowed" else mask, least)
            dims = {"queries": -2, "all heads": 1}.get(mistake or "", -1)
            wide = torch.float32 if style["float32"] else scores.dtype
            weights = scores.softmax(dims, dtype=wide).to(scores.dtype)
            if mask is not None and mistake == "after":
                hidden = mask < 0 if style["mask"] == "added" else ~mask if style["mask"] == "allowed" else mask
                weights = weights.masked_fill(hidden, 0.0)
            out = self.joined(weights @ (k if mistake == "keys as values" else v))
            out = out @ self.out_proj.weight.T if mistake == "output" else self.out_proj(out)
            out = out.transpose(0, 1) if style["tokens_first"] else out
            return (out, weights) if style["weights"] else out

    if style["mask"] is None:

        def forward(self: Any, x: Tensor) -> Any:
            return self.attend(x, None)
    else:

        def forward(self: Any, x: Tensor, attn_mask: Tensor | None = None) -> Any:  # type: ignore[misc]
            return self.attend(x, attn_mask)

    Attention.forward = forward  # type: ignore[method-assign]
    return Attention


def options(style: dict[str, Any]) -> dict[str, Any]:
    return {} if style["mask"] is None else {"means": style["mask"]}


@seed(36)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STYLES)
def test_a_right_one_is_right_in_every_style(style):
    found = check(attention(style, None), **options(style))
    assert found.right, found


@seed(36)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STYLES, st.sampled_from(sorted(MISTAKES)))
def test_a_wrong_one_is_wrong_in_every_style(style, mistake):
    if MISTAKES[mistake](style):
        found = check(attention(style, mistake), **options(style))
        assert not found.right, (mistake, found)
