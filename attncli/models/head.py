"""One head of a model on one text, taken apart: what goes into it, its projections, and its maps."""

from dataclasses import dataclass

from attncli.base.arrays import Floats
from attncli.models.attending import KeepHead
from attncli.models.model import Model
from attncli.record import AttentionRecord, Request
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class OneHead:
    """All that one head works with, float32. Queries are x W_Qᵀ + b_Q, and so on.

    record: its map, as `Model.attend` gives it, with its queries and keys.
    x: the layer's input `[token, hidden_size]`; value: `[token, head_dim]`.
    projections: W `[head_dim, hidden_size]` and b `[head_dim]` of "query", "key" and "value"; no b is zeros.
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
    request = Request([layer], [head], mask, vectors=[(layer, head)])
    parts = KeepHead(layer, head)
    [taken] = model.take([tokens], request, parts)
    x, value = parts.kept[0]
    attention = model.network.layer(layer).attention
    rows = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    return OneHead(
        record=model.record(taken, request),
        x=x.float().cpu().numpy(),
        value=value.float().cpu().numpy(),
        projections={
            name: (
                part.weight[rows].float().cpu().numpy(),
                (part.weight.new_zeros(rows.stop) if part.bias is None else part.bias)[rows].float().cpu().numpy(),
            )
            for name, part in (("query", attention.query), ("key", attention.key), ("value", attention.value))
        },
    )
