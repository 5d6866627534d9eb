"""How much each token brings to a head's output: the norm of weight times transformed value, instead of the weight.

A head may look at [SEP] with nearly all of its weight and take next to nothing from there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attncli.attention import MultiHeadAttention
from attncli.record import AttentionRecord

if TYPE_CHECKING:
    from attncli.models.model import Model


def norms(model: "Model", record: AttentionRecord) -> AttentionRecord:
    """A record of this model's with ‖α f(x)‖ in place of each weight α.

    f(x) = (x W_V + b_V) W_O is a token's value in this head, transformed by the head's rows of the output
    projection; the projection's bias belongs to no token and is left out (Kobayashi et al. 2020, "Attention is Not
    Only a Weight"). Rows do not sum to 1, and a norm may be more than 1.
    """
    _, states = model.hidden_states(record.tokens, model.mask([record.tokens], record.mask_name))
    with torch.inference_mode():
        lengths = torch.stack([of_layer(model, layer, states[layer], record.heads) for layer in record.layers])
    weights = record.weights * lengths.float().cpu().numpy()[:, :, None]
    return replace(record, weights=weights, measure="norm", vectors=None)


def of_layer(model: "Model", layer: int, x: Tensor, heads: Sequence[int]) -> Tensor:
    """‖f(x)‖ of the tokens that go into a layer, x `[token, hidden_size]`: `[head, token]`."""
    attention = model.encoder.layer(layer).attention
    value = attention.split_heads(attention.value(x[None]))[0]  # [head, token, head_dim]
    return transformed_lengths(attention, value, heads)


def transformed_lengths(attention: MultiHeadAttention, value: Tensor, heads: Sequence[int]) -> Tensor:
    """‖v W_O‖ of some heads' values, `[head, token, head_dim]` -> `[head, token]`."""
    output = attention.output.weight.unflatten(1, (-1, attention.head_dim))  # [hidden_size, head, head_dim]
    return torch.stack([(value[head] @ output[:, head].T).norm(dim=-1) for head in heads])
