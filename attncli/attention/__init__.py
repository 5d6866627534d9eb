"""The mathematics of attention: pure functions and modules on tensors, without files or printing.

Read in this order: `scores` (how well does a key fit a query), `masks` (who may look at whom),
`attend` (scores -> mask -> softmax -> weighted sum), `multihead` (many of them side by side),
`positions` (how a network that sees a set learns of an order).
"""

from attncli.attention.attend import Attention, attend, attend_into, attend_output
from attncli.attention.masks import causal_mask, combine_masks, memory_mask, padding_mask
from attncli.attention.multihead import MultiHeadAttention
from attncli.attention.positions import LearnedPositions, SinusoidalPositions
from attncli.attention.scores import SCORES, dot, scaled_dot

__all__ = [
    "SCORES",
    "Attention",
    "LearnedPositions",
    "MultiHeadAttention",
    "SinusoidalPositions",
    "attend",
    "attend_into",
    "attend_output",
    "causal_mask",
    "combine_masks",
    "dot",
    "memory_mask",
    "padding_mask",
    "scaled_dot",
]
