"""The mathematics of attention: pure functions and modules on tensors, without files or printing.

Read in this order: `scores` (how well a key fits a query), `masks` (which query may attend to which key), `normalise`
(from scores to weights, soft or hard), `attend` (scores -> mask -> normalise -> weighted sum), `multihead` (several in
parallel), `positions` (position vectors added to the input), `positional` with `rotary` and `relative` (scores that
depend on positions), `layers` (the other parts of a layer), `transformer` (encoder and decoder layers).
"""

from attncli.attention.attend import Attention, attend
from attncli.attention.layers import FeedForward, GatedFeedForward, RMSNorm
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
from attncli.attention.normalise import NORMALISERS, hard_max, hard_sample, masked_softmax
from attncli.attention.positional import PositionalScore, Where
from attncli.attention.positions import LearnedPositions, SinusoidalPositions
from attncli.attention.relative import Alibi, Disentangled, RelativeBias
from attncli.attention.rotary import Rotary, RotaryScore
from attncli.attention.scores import (
    SCORES,
    Additive,
    Bilinear,
    Concat,
    Content,
    Location,
    QueryKeyNorm,
    dot,
    scaled_dot,
)
from attncli.attention.transformer import DecoderStep, EncoderStep, TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "MASKS",
    "NORMALISERS",
    "SCORES",
    "Additive",
    "Alibi",
    "Attention",
    "Bilinear",
    "Concat",
    "Content",
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
    "hard_max",
    "hard_sample",
    "masked_softmax",
    "memory_mask",
    "padding_mask",
    "scaled_dot",
    "self_mask",
    "window_mask",
]
