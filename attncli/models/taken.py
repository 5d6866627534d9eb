"""What a walk took of a text: what is asked of it, by numbers, and the tensors that a record is made of."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.models.rows import LayerMask
from attncli.record.prediction import Said
from attncli.text.tokens import Tokens


class Asked(NamedTuple):
    """Whose weights are asked for, counted from 0; and the (layer, head), among these, whose queries and keys are."""

    layers: list[int]
    heads: list[int]
    vectors: list[tuple[int, int]]


class Taken(NamedTuple):
    """What a walk took of a text.

    weights `[layer, head, query, key]`, or norms where the request asks for them, in the model's `map_dtype`; vectors
    `[2, head, token, head_dim]`, queries and then keys, in its own; terms: what positions add to the scores of these
    heads, by name, `[head, query, key]`; masks: of the layers that are asked for, bool `[layer, query, key]`; said:
    what the model says of the text, where that is asked for.
    """

    tokens: Tokens
    asked: Asked
    weights: Tensor
    vectors: Tensor
    terms: dict[str, Tensor]
    masks: Tensor
    said: Said | None


def of_layers(masks: Sequence[LayerMask | None], texts: int, length: int, device: torch.device) -> Tensor:
    """The masks of layers written out: bool `[text, layer, query, key]`, a view of one where layers share theirs."""
    everything, every = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device), slice(0, length)
    made = {id(mask): None if mask is None else mask.of(every, every, device) for mask in masks}
    shown = [made[id(mask)] for mask in masks]
    whole = [(everything if mask is None else mask).expand(texts, 1, length, length) for mask in shown]
    if all(mask is masks[0] for mask in masks):
        return whole[0].expand(texts, len(masks), length, length)
    return torch.cat(whole, dim=1)
