"""How much each token brings to a head's output: the norm of weight times transformed value, instead of the weight.

A head may look at [SEP] with nearly all of its weight and take next to nothing from there.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from attncli.models.model import Model
from attncli.record import AttentionRecord, Floats
from attncli.selection import Selection
from attncli.text import Tokens


def norms(
    model: Model, tokens: Tokens, layers: Selection = "all", heads: Selection = "all", mask: str = "padding"
) -> AttentionRecord:
    """The record that `Model.attend_tokens` gives, with ‖α f(x)‖ in place of each weight α.

    f(x) = (x W_V + b_V) W_O is a token's value in this head, transformed by the head's rows of the output
    projection; the projection's bias belongs to no token and is left out (Kobayashi et al. 2020, section 3). Rows do
    not sum to 1, and a norm may be more than 1. The model's name says "(norm)".

    Raises RequestError as `Model.attend` does.
    """
    record = next(model.attend_tokens([tokens], layers, heads, mask))
    lengths = transformed_lengths(model, tokens, record.layers, record.heads, mask)
    return replace(
        record,
        weights=record.weights * lengths[:, :, None],
        model=replace(record.model, name=f"{record.model.name} (norm)"),
    )


def norms_many(
    model: Model,
    texts: Iterable[str],
    pairs: Iterable[str | None] | None = None,
    layers: Selection = "all",
    heads: Selection = "all",
    mask: str = "padding",
    pad_to: int | None = None,
) -> Iterator[AttentionRecord]:
    """`norms` of many texts, one after the other; arguments and errors as for `Model.attend_many`."""
    for tokens in model.tokenize_many(texts, pairs, pad_to):
        yield norms(model, tokens, layers, heads, mask)


def transformed_lengths(model: Model, tokens: Tokens, layers: Sequence[int], heads: Sequence[int], mask: str) -> Floats:
    """‖f(x)‖ of every token, `[layer, head, key]`, in the order asked for."""
    _, states = model.hidden_states(tokens, model.mask([tokens], mask))
    lengths = []
    with torch.inference_mode():
        for layer in layers:
            attention = model.encoder.layer(layer).attention
            value = attention.split_heads(attention.value(states[layer][None]))[0, list(heads)]  # [head, key, head_dim]
            output = attention.output.weight.unflatten(1, (-1, attention.head_dim))[:, list(heads)]
            transformed = torch.einsum("hkd,ohd->hko", value, output)
            lengths.append(transformed.float().norm(dim=-1).cpu().numpy())
    return np.stack(lengths)
