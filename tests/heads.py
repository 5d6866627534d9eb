"""Heads made up for tests, taken apart as `attncli.models.head` does with a model's."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import strategies as st
from records import record_of

from attncli.attention import MultiHeadAttention, PositionalScore, attend
from attncli.features.mechanisms.head import HeadInLayer
from attncli.models.head import OneHead
from attncli.record import Vectors


def made_up(seed=0, tokens=9, hidden=12, head_dim=8, scale=1.0, mask=None, padding=0, **given) -> OneHead:
    """A head of random projections; `given` are projections `(W, b)` that are not random, scale is of its queries."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(tokens, hidden)).astype(np.float32)
    projections = {
        name: given.get(name)
        or tuple(part.astype(np.float32) for part in (numbers.normal(size=(head_dim, hidden)), np.zeros(head_dim)))
        for name in ("query", "key", "value")
    }
    projections["query"] = tuple(np.float32(scale) * part for part in projections["query"])
    query, key, value = (x @ weight.T + bias for weight, bias in projections.values())
    record = record_of(np.zeros((tokens, tokens)), mask=mask, padding=padding)
    _, weights, _ = attend(*map(torch.from_numpy, (query, key, value)), torch.from_numpy(record.mask.copy()))
    record = replace(record, weights=weights.numpy()[None, None], vectors=Vectors([(0, 0)], query[None], key[None]))
    return OneHead(record=record, x=x, value=value, projections=projections, group=range(1))


def in_layer(
    seed=0, heads=3, tokens=6, padding=0, head_dim=4, mask=None, number=1, scale=1.0, key_heads=None
) -> HeadInLayer:
    """A head of random queries and keys, with its own map."""
    random = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, heads, tokens, head_dim, generator=random)
    real = torch.arange(tokens) < tokens - padding
    mask = (torch.ones(tokens, tokens, dtype=torch.bool) if mask is None else mask) & real
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        attention = MultiHeadAttention(heads * head_dim, heads, key_heads=key_heads)
    key = attention.share(key[None, : attention.key_heads])[0]
    own = attend(scale * query[number], key[number], key[number], mask).weights.numpy()
    counted = (real & mask.any(dim=1)).numpy()
    positions = torch.arange(tokens)
    return HeadInLayer(attention, PositionalScore(), number, scale * query, key, mask, real, positions, counted, own)


@st.composite
def heads(draw) -> OneHead:
    """Heads of random sizes, with small, middling and large scores."""
    return made_up(
        seed=draw(st.integers(0, 2**32 - 1)),
        tokens=draw(st.integers(4, 12)),
        hidden=draw(st.integers(1, 12)),
        head_dim=draw(st.integers(1, 9)),
        scale=draw(st.sampled_from([0.01, 1.0, 30.0])),
        padding=draw(st.integers(0, 2)),
    )
