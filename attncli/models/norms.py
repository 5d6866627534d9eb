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


def transformed_lengths(attention: MultiHeadAttention, value: Tensor, heads: Sequence[int]) -> Tensor:
    """‖v W_O‖ of the values of these heads, `[text, head, token, head_dim]` -> `[text, head, token]`."""
    output = attention.output.weight.unflatten(1, (-1, attention.head_dim))  # [hidden_size, head, head_dim]
    lengths = [(value[:, place] @ output[:, head].T).norm(dim=-1) for place, head in enumerate(heads)]
    return torch.stack(lengths, dim=1)
