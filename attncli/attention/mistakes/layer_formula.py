"""The encoder's and the decoder's layer with every step a field of its own, so that any of them can be another.

    x ── positions ── self-attention ── cross-attention (a decoder's) ── feed-forward ──► output

Around each of the sublayers stand a residual connection and a norm. The defaults are right: the same numbers as
`TransformerEncoderLayer` and `TransformerDecoderLayer`, which are written to be read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention.mistakes.formula import RIGHT, Formula, Inputs, Linear, Projections, Seen, same

Function = Callable[[Tensor], Tensor]


class Norm(NamedTuple):
    """What a norm learns: weight and bias `[d_model]`; bias None has none."""

    weight: Tensor
    bias: Tensor | None = None


class Parts(NamedTuple):
    """The weights of a layer. norms: one a sublayer, in their order; None where there is none.

    cross: of a decoder. gate: of a gated feed-forward network, W in (f(x W) ⊗ x V) W_2, where up is V.
    """

    attention: Projections
    up: Linear
    down: Linear
    norms: tuple[Norm | None, ...]
    cross: Projections | None = None
    gate: Linear | None = None


class LayerInputs(NamedTuple):
    """x `[batch, token, d_model]`; memory `[batch, key, d_model]`, of a decoder, and what of it may be seen."""

    x: Tensor
    heads: int
    parts: Parts
    memory: Tensor | None = None
    seen: Seen = Seen()
    memory_seen: Seen = Seen()


class LayerResult(NamedTuple):
    """output `[batch, token, d_model]`; nowhere: bool `[batch, token]`, True where a token may see nothing."""

    output: Tensor
    nowhere: Tensor


class Terms(NamedTuple):
    """What may be added up behind a sublayer: x, what the sublayer took, what it gave, and the layer's input."""

    x: Tensor
    taken: Tensor
    given: Tensor
    start: Tensor


# --- the steps, as they should be -----------------------------------------------------------------------


def residual(terms: Terms) -> Tensor:
    return terms.x + terms.given


def layer_norm(x: Tensor, norm: Norm, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, eps)


def rms_norm(x: Tensor, norm: Norm, eps: float) -> Tensor:
    """x / RMS(x) (Zhang and Sennrich 2019, equation 4)."""
    y = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * norm.weight
    return y if norm.bias is None else y + norm.bias


def sample_norm(x: Tensor, norm: Norm, eps: float) -> Tensor:
    """LayerNorm by the standard deviation of a sample, with n - 1, to which ε is added."""
    y = norm.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)
    return y if norm.bias is None else y + norm.bias


def feed_forward(x: Tensor, parts: Parts, function: Function) -> Tensor:
    if parts.gate is not None:
        return parts.down(function(parts.gate(x)) * parts.up(x))
    return parts.down(function(parts.up(x)))


def masks(own: Seen, memory: Seen) -> tuple[Seen, Seen]:
    """What hides of x, and of the memory."""
    return own, memory


def meeting(x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Of what queries are made, and of what keys and values, in cross-attention."""
    return x, memory


@dataclass(frozen=True)
class Around:
    """A residual connection and a norm. norms: where it stands: "before" the sublayer, "within" (of what it gives,

    before that is added), or "after" the addition: pre-norm, and post-norm.
    """

    norms: tuple[str, ...] = ("after",)
    add: Callable[[Terms], Tensor] = residual

    def __call__(self, x: Tensor, norm: Function, sublayer: Function, start: Tensor) -> Tensor:
        taken = norm(x) if "before" in self.norms else x
        given = sublayer(taken)
        added = self.add(Terms(x, taken, norm(given) if "within" in self.norms else given, start))
        return norm(added) if "after" in self.norms else added


@dataclass(frozen=True)
class LayerFormula:
    """Vaswani et al. 2017, section 3.1, step by step: every field is a step; the defaults are theirs.

    eps: the norms'. attention, cross: the formula of self-attention and of cross-attention.
    """

    positions: Function = same
    parts: Callable[[Parts], Parts] = same
    masks: Callable[[Seen, Seen], tuple[Seen, Seen]] = masks
    meeting: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = meeting
    attention: Formula = RIGHT
    cross: Formula = RIGHT
    around_attention: Around = Around()
    around_cross: Around = Around()
    around_feed_forward: Around = Around()
    norm: Callable[[Tensor, Norm, float], Tensor] = layer_norm
    eps: float = 1e-5
    function: Function = torch.relu
    feed_forward: Callable[[Tensor, Parts, Function], Tensor] = feed_forward

    def __call__(self, inputs: LayerInputs) -> LayerResult:
        """Raises whatever torch raises where a variant can't be computed at all."""
        parts = self.parts(inputs.parts)
        norms = [self.with_weights(norm) for norm in parts.norms]
        start = x = self.positions(inputs.x)
        own, others = self.masks(inputs.seen, inputs.memory_seen)
        nowhere = [torch.zeros(x.shape[:2], dtype=torch.bool)]

        def attend(formula: Formula, by: Projections, query: Tensor, memory: Tensor, seen: Seen) -> Tensor:
            result = formula(Inputs(query, memory, memory, inputs.heads, by, seen))
            nowhere.extend([] if result.nowhere is None else [result.nowhere.any(1)])
            return result.output

        x = self.around_attention(x, norms[0], lambda y: attend(self.attention, parts.attention, y, y, own), start)
        if parts.cross is not None and inputs.memory is not None:
            by, memory = parts.cross, inputs.memory
            x = self.around_cross(
                x, norms[1], lambda y: attend(self.cross, by, *self.meeting(y, memory), others), start
            )
        x = self.around_feed_forward(x, norms[-1], lambda y: self.feed_forward(y, parts, self.function), start)
        return LayerResult(x, torch.stack(nowhere).any(0))

    def with_weights(self, norm: Norm | None) -> Function:
        return same if norm is None else lambda x: self.norm(x, norm, self.eps)


RIGHT_LAYER = LayerFormula()
