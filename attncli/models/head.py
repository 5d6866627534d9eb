"""One head of a model on one text in detail: its input, its projections, and its maps."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncli.base.arrays import Floats, Ints, as_floats
from attncli.models.engine import Engine
from attncli.models.own_model import OwnModel
from attncli.models.taken import as_record
from attncli.models.taps import ProjectionInputs
from attncli.record import AttentionRecord, Request
from attncli.record.selection import Input, choose_head
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class OneHead:
    """All parts of one head, in float32. Queries are x W_Qᵀ + b_Q, and so on, normalised afterwards if the network has
    such norms, and rotated if positions are rotary.

    record: its map, as from `attend`, with its final queries and keys.
    x: the input of the projections `[token, hidden_size]`; None in a network of transformers. value:
    `[key, head_dim]`.
    projections: W `[head_dim, hidden_size]` and b `[head_dim]` of "query", "key" and "value"; b is 0 if there is no
    bias; empty if x is unknown. group: the heads of the layer that share keys and values, including this one.
    before: "query" and "key" before the rotation, `[token, head_dim]`; empty if x is unknown. normed: they are
    normalised.
    rotary: the rotation of queries and keys, if any. rows: the row of the score's position table for each query and
    key, `[query, key]`, if there is one.
    """

    record: AttentionRecord
    x: Floats | None
    value: Floats
    projections: dict[str, tuple[Floats, Floats]]
    group: range
    before: dict[str, Floats] = field(default_factory=dict)
    normed: bool = False
    rotary: Any = None
    rows: Ints | None = None

    def projected(self, name: str) -> Floats:
        """Return x Wᵀ + b of "query", "key" or "value", `[token, head_dim]`."""
        weight, bias = self.projections[name]
        return self.x @ weight.T + bias

    @property
    def query(self) -> Floats:
        """Return the query vectors, `[token, head_dim]`."""
        assert self.record.vectors is not None
        return self.record.vectors.query[0]

    @property
    def key(self) -> Floats:
        """Return the key vectors, `[token, head_dim]`."""
        assert self.record.vectors is not None
        return self.record.vectors.key[0]


def head_of_text(model: Engine, text: Input, request: Request) -> OneHead:
    """Return the parts of the one head that a request names, on one text.

    Raises RequestError for several heads, and as a run does.
    """
    model.check(request)
    tokens = model.ready(model.tokenizer.encode(*text, request.pad_to), request.target)
    layer, head = choose_head(request.layers, request.heads, model.layers, model.heads)
    return one_head(model, tokens, layer, head, request.mask)


def one_head(model: Engine, tokens: Tokens, layer: int, head: int, mask: str | None) -> OneHead:
    """Return the parts of a head, counted from 0, on one text. The map equals that of `attend` for this head."""
    model = model.of_part(None)
    request = Request([layer], [head], mask, vectors=[(layer, head)])
    parts = ProjectionInputs(layer, head)
    [taken] = model.take([tokens], request, [parts])
    x, value, group = parts.kept[0]
    record, value = as_record(model, taken, request), as_floats(value)
    if not isinstance(model, OwnModel):
        return OneHead(record, None, value, {}, group)
    own, size, together = model.network.layer(layer), model.head_dim, model.heads // model.config.key_heads
    shared, first = head // together, head - head % together
    projections = {}
    for name, place in (("query", head), ("key", shared), ("value", shared)):
        weight, bias = own.projection(name)
        its = slice(place * size, (place + 1) * size)
        projections[name] = as_floats(weight[its]), np.zeros(size, "f4") if bias is None else as_floats(bias[its])
    with model.inference():
        query, key, _ = own.project(x[None], [head], values=False)
    rows = None
    if own.score.names:  # scores with terms exist only in torch
        import torch

        from attncli.attention import Disentangled, RelativeBias

        behind = torch.arange(len(tokens))[:, None] - torch.arange(len(tokens))  # i - j
        if isinstance(own.score, RelativeBias):
            rows = own.score.rows(-behind).numpy()
        elif isinstance(own.score, Disentangled):
            rows = own.score.rows(behind).numpy()
    return OneHead(
        record=record,
        x=as_floats(x),
        value=value,
        projections=projections,
        group=range(first, first + together),
        before={"query": as_floats(query[0, 0]), "key": as_floats(key[0, 0])},
        normed=model.config.query_key_norm is not None,
        rotary=own.score.rotary,
        rows=rows,
    )
