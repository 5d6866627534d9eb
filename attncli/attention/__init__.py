"""The mathematics of attention: pure functions and modules on tensors, without files or printing.

Read in this order: `scores` (how well a key fits a query), `masks` (which query may attend to which key),
`normalisers` (from scores to weights: soft, sparse or hard), `attend` (all of it, and the weighted sum), `multihead`
(several in parallel), `positions` (vectors added to the input, and scores that depend on positions), `transformer`
(feed-forward networks, norms, whole layers).
"""

from attncli.attention.attend import Attention, attend
from attncli.attention.masks import (
    MASKS,
    Window,
    causal_mask,
    combine_masks,
    memory_mask,
    padding_mask,
    self_mask,
    window_mask,
)
from attncli.attention.multihead import MultiHeadAttention
from attncli.attention.normalisers import (
    NORMALISERS,
    entmax15,
    hard_max,
    hard_sample,
    masked_softmax,
    relu_norm,
    sigmoid,
    sparsemax,
)
from attncli.attention.positions import (
    Alibi,
    Disentangled,
    LearnedPositions,
    PositionalScore,
    RelativeBias,
    Rotary,
    RotaryScore,
    SinusoidalPositions,
    Where,
)
from attncli.attention.scores import (
    SCORES,
    Additive,
    Bilinear,
    Concat,
    ContentBased,
    Location,
    QueryKeyNorm,
    dot,
    scaled_dot,
)
from attncli.attention.transformer import (
    DecoderStep,
    EncoderStep,
    FeedForward,
    GatedFeedForward,
    RMSNorm,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

__all__ = [
    "MASKS",
    "NORMALISERS",
    "SCORES",
    "Additive",
    "Alibi",
    "Attention",
    "Bilinear",
    "Concat",
    "ContentBased",
    "DecoderStep",
    "Disentangled",
    "EncoderStep",
    "FeedForward",
    "GatedFeedForward",
    "LearnedPositions",
    "Location",
    "MultiHeadAttention",
    "PositionalScore",
    "QueryKeyNorm",
    "RMSNorm",
    "RelativeBias",
    "Rotary",
    "RotaryScore",
    "SinusoidalPositions",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "Where",
    "Window",
    "attend",
    "causal_mask",
    "combine_masks",
    "dot",
    "entmax15",
    "hard_max",
    "hard_sample",
    "masked_softmax",
    "memory_mask",
    "padding_mask",
    "relu_norm",
    "scaled_dot",
    "self_mask",
    "sigmoid",
    "sparsemax",
    "window_mask",
]
