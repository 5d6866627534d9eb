"""The other parts of a layer: feed-forward networks, and a norm without centring.

FFN:   x ── up ── f ── down ──► y           gated:   x ──┬── f(x W) ──(·)── down ──► y
                                                         └──── x V ────┘
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """FFN(x) = W_2 f(W_1 x + b_1) + b_2   (Vaswani et al. 2017, equation 2, f the ReLU): applied to each token.

    `function` is f. `linear` is the class of both projections, which may be faster than torch's. bias: both have one.
    down_bias: the second has one, if it differs from the first.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        function: Activation = torch.relu,
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
        function: Activation = F.gelu,
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
        opened, values = self.up(x).chunk(2, dim=-1)
        y: Tensor = self.down(self.function(opened) * values)
        return y


class RMSNorm(nn.Module):
    """RMSNorm(x) = x / RMS(x) · g,  RMS(x) = √(mean(x²) + ε)   (Zhang and Sennrich 2019, equation 4).

    LayerNorm without subtracting the mean: both are equal for x with mean 0. weight is g. Half precision is squared
    in float32, since the squares need its range.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model]` -> the same shape."""
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return (wide * (wide.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype) * self.weight
