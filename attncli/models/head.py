"""One head of a model on one text, taken apart: what goes into it, its projections, and its maps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attncli.attention import Disentangled, PositionalScore, RelativeBias, Rotary, RotaryScore
from attncli.base.arrays import Floats, Ints
from attncli.models.engine import Engine
from attncli.models.network import Network
from attncli.models.taken import as_record
from attncli.models.tapped import TappedModel, require_tapped
from attncli.models.taps import Given
from attncli.record import AttentionRecord, Request
from attncli.record.request import Input
from attncli.text.tokens import Tokens


@dataclass(frozen=True)
class OneHead:
    """All that one head works with, float32. Queries are x W_Qᵀ + b_Q, and so on; turned then where positions do that.

    record: its map, as `attend` gives it, with its queries and keys as they meet.
    x: what the projections are given `[token, hidden_size]`; None in a network of transformers. value:
    `[key, head_dim]`.
    projections: W `[head_dim, hidden_size]` and b `[head_dim]` of "query", "key" and "value"; b is 0 where there is
    none; empty where x is not known. group: the heads of the layer that have the same keys and values, this one too.
    rotary: how queries and keys are turned, if they are; rows: of the table of positions that the terms are made of,
    if there is one, the row for each query and key, `[query, key]`.
    """

    record: AttentionRecord
    x: Floats | None
    value: Floats
    projections: dict[str, tuple[Floats, Floats]]
    group: range
    rotary: Rotary | None = None
    rows: Ints | None = None

    def unturned(self, name: str) -> Floats:
        """The "query", the "key" or the "value" before positions turn it: x W + b, `[token, head_dim]`."""
        weight, bias = self.projections[name]
        return self.x @ weight.T + bias

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


def read_text(model: TappedModel, text: Input, options: Mapping[str, Any]) -> Tokens:
    """Return what the queries of a part are of: the text, or what a decoder is made to write of it.

    options: "mask", "pad_to", "which" and "target", as a command has them. Raises RequestError for what the model
    can't do.
    """
    model.check(Request(**{name: options[name] for name in ("mask", "which", "target")}))
    return model.ready(model.tokenizer.encode(*text, options["pad_to"]), options["target"])


def one_head(model: Engine, tokens: Tokens, layer: int, head: int, mask: str | None) -> OneHead:
    """Take apart a head, counted from 0, on one text. The map is exactly what `attend` gives for it alone."""
    model = require_tapped(model)
    request = Request([layer], [head], mask, vectors=[(layer, head)])
    parts = Given(layer, head)
    [taken] = model.take([tokens], request, [parts])
    x, value, group = parts.kept[0]
    record, value = as_record(model, taken, request), value.float().cpu().numpy()
    if not isinstance(model.network, Network):
        return OneHead(record, None, value, {}, group)
    attention = model.network.layer(layer).attention
    score = model.network.layer(layer).score
    places = {"query": head, "key": attention.key_head(head), "value": attention.key_head(head)}
    rows = {name: slice(at * attention.head_dim, (at + 1) * attention.head_dim) for name, at in places.items()}
    return OneHead(
        record=record,
        x=x.float().cpu().numpy(),
        value=value,
        projections={
            name: (
                part.weight[rows[name]].float().cpu().numpy(),
                np.zeros(attention.head_dim, np.float32)
                if part.bias is None
                else part.bias[rows[name]].float().cpu().numpy(),
            )
            for name, part in (("query", attention.query), ("key", attention.key), ("value", attention.value))
        },
        group=attention.group(head),
        rotary=score.rotary if isinstance(score, RotaryScore) else None,
        rows=table_rows(score, len(tokens)),
    )


def table_rows(score: PositionalScore, count: int) -> Ints | None:
    """Of so many queries and keys, the row of the score's table of positions, `[query, key]`; None without a table."""
    places = torch.arange(count)
    behind = places[:, None] - places  # i - j
    match score:
        case RelativeBias():
            rows = score.rows(-behind)
        case Disentangled():
            rows = score.rows(behind)
        case _:
            return None
    made: Ints = rows.numpy()
    return made
