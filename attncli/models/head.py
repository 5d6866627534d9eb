"""One head of a model on one text, taken apart: what goes into it, its projections, and its maps."""

from dataclasses import dataclass

import torch

from attncli.base.arrays import Floats
from attncli.models.model import Model
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class OneHead:
    """All that one head works with, float32. Queries are x W_Qᵀ + b_Q, and so on.

    record: its map, as `Model.attend` gives it, with its queries and keys.
    x: the layer's input `[token, hidden_size]`; value: `[token, head_dim]`.
    projections: W `[head_dim, hidden_size]` and b `[head_dim]` of "query", "key" and "value".
    """

    record: AttentionRecord
    x: Floats
    value: Floats
    projections: dict[str, tuple[Floats, Floats]]

    @property
    def query(self) -> Floats:
        """`[token, head_dim]`"""
        assert self.record.vectors is not None
        return self.record.vectors.query[0]

    @property
    def key(self) -> Floats:
        """`[token, head_dim]`"""
        assert self.record.vectors is not None
        return self.record.vectors.key[0]


def one_head(model: Model, tokens: Tokens, layer: int, head: int, mask: str) -> OneHead:
    """Take apart a head, counted from 0, on one text. The map is exactly what `attend` gives for it alone."""
    record = next(model.attend_tokens([tokens], Request([layer], [head], mask, vectors=[(layer, head)])))
    _, states = model.hidden_states(tokens, model.mask([tokens], mask))
    x = states[layer]  # after the embeddings, and then after every layer: what goes into this one
    attention = model.encoder.layer(layer).attention
    rows = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    with torch.inference_mode():
        value = attention.project(x[None])[2][0, head]
    return OneHead(
        record=record,
        x=x.float().cpu().numpy(),
        value=value.float().cpu().numpy(),
        projections={
            name: (
                part.weight[rows].float().cpu().numpy(),
                part.bias[rows].float().cpu().numpy(),
            )
            for name, part in (("query", attention.query), ("key", attention.key), ("value", attention.value))
        },
    )
