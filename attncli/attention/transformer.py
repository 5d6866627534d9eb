"""The layers of the Transformer's encoder and decoder (Vaswani et al. 2017, section 3.1 and figure 1).

A sublayer is wrapped in a residual connection and a LayerNorm. The paper uses post-norm, x <- norm(x + sublayer(x)).
Most later models use pre-norm, x <- x + sublayer(norm(x)), which trains without a warm-up (Xiong et al. 2020, figure
1). The last of several pre-norm layers is followed by one more norm, which the caller must add.

    encoder:   x ── self-attention ── feed-forward ──► x
    decoder:   x ── self-attention (causal) ── cross-attention to the memory ── feed-forward ──► x

The file starts with the feed-forward networks, plain and gated:

    x ── up ── f ── down ──► y              x ──┬── f(x W) ──(·)── down ──► y
                                                └──── x V ────┘
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention.attend import Attention
from attncli.attention.multihead import MultiHeadAttention
from attncli.attention.scores import ScoreFunction, scaled_dot

_Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """FFN(x) = W_2 f(W_1 x + b_1) + b_2   (Vaswani et al. 2017, equation 2, f the ReLU): applied to each token.

    `function` is f. `linear` is the class of both projections. bias: both have a bias. down_bias: the second has one,
    if it differs from the first.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        function: _Activation = torch.relu,
        bias: bool = True,
        linear: type[nn.Linear] = nn.Linear,
        down_bias: bool | None = None,
    ) -> None:
        super().__init__()
        self.function = function
        self.up = linear(d_model, d_hidden, bias=bias)
        self.down = linear(d_hidden, d_model, bias=bias if down_bias is None else down_bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model]` -> the same shape."""
        y: Tensor = self.down(self.function(self.up(x)))
        return y


class GatedFeedForward(nn.Module):
    """FFN_GLU(x) = (f(x W) ⊗ x V) W_2   (Shazeer 2020, equation 6): with f = GELU it is GeGLU, with SiLU SwiGLU.

    W and V are stacked in `up.weight`; W has the first d_hidden rows. Arguments as for FeedForward. For the same
    number of parameters, d_hidden is two thirds of FeedForward's.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        function: _Activation = F.gelu,
        bias: bool = True,
        linear: type[nn.Linear] = nn.Linear,
        down_bias: bool | None = None,
    ) -> None:
        super().__init__()
        self.function = function
        self.up = linear(d_model, 2 * d_hidden, bias=bias)
        self.down = linear(d_hidden, d_model, bias=bias if down_bias is None else down_bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model]` -> the same shape."""
        gate, values = self.up(x).chunk(2, dim=-1)
        y: Tensor = self.down(self.function(gate) * values)
        return y


class RMSNorm(nn.Module):
    """RMSNorm(x) = x / RMS(x) · g,  RMS(x) = √(mean(x²) + ε)   (Zhang and Sennrich 2019, equation 4).

    LayerNorm without subtracting the mean: both are equal for x with mean 0. weight is g. Half precision is squared
    in float32, since the squares need its range. If g is float32, the product with g is in float32 too.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model]` -> the same shape."""
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        normed = wide * (wide.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        if self.weight.dtype == wide.dtype:
            return (normed * self.weight).to(x.dtype)
        return normed.to(x.dtype) * self.weight


class EncoderStep(NamedTuple):
    """The results of an encoder layer: output `[batch, token, d_model]`, and its self-attention."""

    output: Tensor
    attention: Attention


class DecoderStep(NamedTuple):
    """The results of a decoder layer: output `[batch, query, d_model]`, its self-attention and its cross-attention."""

    output: Tensor
    attention: Attention
    cross: Attention


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, as drawn at the top of this file; without dropout.

    d_hidden: hidden size of the feed-forward network, 4 d_model by default. norm_first: pre-norm instead of post-norm.
    score: as in MultiHeadAttention. feed_forward: builds the feed-forward network from d_model and d_hidden, for
    example `GatedFeedForward`. norm: builds a norm from d_model, for example `RMSNorm`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_hidden: int | None = None,
        norm_first: bool = False,
        score: ScoreFunction = scaled_dot,
        feed_forward: Callable[[int, int], nn.Module] = FeedForward,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, heads, score=score)
        self.feed_forward = feed_forward(d_model, 4 * d_model if d_hidden is None else d_hidden)
        self.attention_norm = norm(d_model)
        self.feed_forward_norm = norm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> EncoderStep:
        """x `[batch, token, d_model]`; mask: bool, broadcasts to `[batch, head, query, key]`, True = may attend."""
        x, attention = add_attention(x, self.attention_norm, self.norm_first, lambda y: self.attention(y, mask=mask))
        return EncoderStep(add_sublayer(x, self.feed_forward_norm, self.norm_first, self.feed_forward), attention)


class TransformerDecoderLayer(nn.Module):
    """Self-attention, cross-attention to the encoder's output, then the feed-forward network.

    Arguments as for TransformerEncoderLayer; d_memory is the size of the memory's vectors, d_model by default.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_hidden: int | None = None,
        norm_first: bool = False,
        score: ScoreFunction = scaled_dot,
        d_memory: int | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, heads, score=score)
        self.cross = MultiHeadAttention(d_model, heads, d_memory, score=score)
        self.feed_forward = FeedForward(d_model, 4 * d_model if d_hidden is None else d_hidden)
        self.attention_norm = nn.LayerNorm(d_model)
        self.cross_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> DecoderStep:
        """x `[batch, query, d_model]`, memory `[batch, key, d_memory]`.

        mask (usually `causal_mask`) is for the self-attention, memory_mask for the cross-attention: bool, broadcast
        to `[batch, head, query, key]`, True = may attend.
        """
        x, attention = add_attention(x, self.attention_norm, self.norm_first, lambda y: self.attention(y, mask=mask))
        x, cross = add_attention(x, self.cross_norm, self.norm_first, lambda y: self.cross(y, memory, memory_mask))
        return DecoderStep(
            add_sublayer(x, self.feed_forward_norm, self.norm_first, self.feed_forward), attention, cross
        )


def add_sublayer(x: Tensor, norm: nn.Module, norm_first: bool, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a sublayer with a residual connection: norm(x + sublayer(x)), or x + sublayer(norm(x)) with norm_first."""
    y: Tensor = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
    return y


def add_attention(
    x: Tensor, norm: nn.Module, norm_first: bool, sublayer: Callable[[Tensor], Attention]
) -> tuple[Tensor, Attention]:
    """Apply an attention sublayer as `add_sublayer` does, and also return the attention."""
    attention = sublayer(norm(x) if norm_first else x)
    return (x + attention.output if norm_first else norm(x + attention.output)), attention
