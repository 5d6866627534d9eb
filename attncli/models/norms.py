"""How much each token brings to a head's output: the norm of weight times transformed value, instead of the weight.

A head may look at [SEP] with nearly all of its weight and take next to nothing from there. With
f(x) = (x W_V + b_V) W_O, a token's value in this head transformed by the head's rows of the output projection, the norm
is ‖α f(x)‖ = α ‖f(x)‖; the projection's bias belongs to no token and is left out (Kobayashi et al. 2020, "Attention is
Not Only a Weight", section 2.2).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncli.attention import MultiHeadAttention


def value_lengths(attention: MultiHeadAttention, x: Tensor, heads: Sequence[int]) -> Tensor:
    """‖f(x)‖ of the tokens that go into a layer, x `[token, hidden_size]`: `[head, token]`."""
    value = attention.split_heads(attention.value(x[None]))[0]  # [head, token, head_dim]
    return transformed_lengths(attention, value, heads)


def transformed_lengths(attention: MultiHeadAttention, value: Tensor, heads: Sequence[int]) -> Tensor:
    """‖v W_O‖ of some heads' values, `[head, token, head_dim]` -> `[head, token]`."""
    output = attention.output.weight.unflatten(1, (-1, attention.head_dim))  # [hidden_size, head, head_dim]
    return torch.stack([(value[head] @ output[:, head].T).norm(dim=-1) for head in heads])
