"""Multi-head attention with every step a field, so that any step can be replaced.

The steps in their order:

    projections ─ split ─ norm ─ place ─ share ─ score · scale ─ add ─ hide ─ normalise ─ forbid ─ weigh ─ join ─ output
    ─ finish

The defaults are right: they give the same numbers as `MultiHeadAttention` and `attend`, and call the same functions.
Those two are written to be read, this one to be changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask, combine_masks, padding_mask
from attncli.attention.normalisers import masked_softmax
from attncli.attention.scores import dot


class Affine(NamedTuple):
    """y = W x + b: weight `[out, in]`, bias `[out]` or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        y = x @ self.weight.mT
        return y if self.bias is None else y + self.bias


class Projections(NamedTuple):
    """W_Q, W_K, W_V and W_O; without W_O the joined heads are the output."""

    query: Affine
    key: Affine
    value: Affine
    output: Affine | None


class Masking(NamedTuple):
    """The masks. None and False hide nothing.

    padding: bool `[batch, key]`, True at real tokens. pairs: bool, broadcasts to `[batch, head, query, key]`.
    """

    padding: Tensor | None = None
    causal: bool = False
    pairs: Tensor | None = None

    @property
    def hides_nothing(self) -> bool:
        """Return whether no mask hides anything, apart from causality."""
        return self.padding is None and (self.pairs is None or bool(self.pairs.all()))


class Inputs(NamedTuple):
    """The inputs of attention.

    With projections: query `[batch, query, d_model]`, key and value `[batch, key, d_memory]`. Without projections:
    query, key and value of the heads, `[batch, head, token, d]`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    heads: int
    projections: Projections | None = None
    seen: Masking = Masking()


class FormulaResult(NamedTuple):
    """output `[batch, query, d_model]`, of heads `[batch, head, query, d_v]`; weights `[batch, head, query, key]`.

    nowhere: bool `[batch, head, query]`, True at fully masked rows; None without a mask.
    """

    output: Tensor
    weights: Tensor
    nowhere: Tensor | None = None


class Sizes(NamedTuple):
    """The width of one head, that of all heads together, and that of the queries before their projection."""

    d_k: int
    d_model: int
    d_input: int


# --- the right steps -----------------------------------------------------------------------


def identity(x: Any) -> Any:
    """Return the argument."""
    return x


def first(queries: int, keys: int) -> int:
    """Return the position of the first query among the keys: the queries are the last tokens."""
    return keys - queries


def causal(queries: int, keys: int, first: int) -> Tensor:
    return causal_mask(queries, keys, first=first)


def split(x: Tensor, heads: int) -> Tensor:
    """`[batch, token, heads · d]` -> `[batch, head, token, d]`: head i has the elements i · d to (i + 1) · d."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    """`[batch, head, token, d]` -> `[batch, token, heads · d]`."""
    return x.transpose(1, 2).flatten(-2)


def share(x: Tensor, heads: int) -> Tensor:
    """Repeat `[batch, key head, token, d]` to `[batch, head, token, d]`: neighbouring heads share keys and values."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def scale(scores: Tensor, sizes: Sizes) -> Tensor:
    return scores / sizes.d_k**0.5


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -torch.inf)


def normalise(scores: Tensor, sizes: Sizes) -> Tensor:
    return masked_softmax(scores)


def forbid(weights: Tensor, mask: Tensor) -> Tensor:
    """Set the weights of hidden keys to 0, so that a fully masked row is 0, not NaN."""
    return weights.masked_fill(~mask, 0.0)


def weigh(weights: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return weights @ value


@dataclass(frozen=True)
class Formula:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O   (Vaswani et al. 2017, section 3.2.2), step by step.

    Every field is a function for one step. The defaults are the formula.
    """

    memory: Callable[[Tensor, Tensor], Tensor] = lambda query, memory: memory  # what keys and values are projected from
    projections: Callable[[Projections], Projections] = identity
    seen: Callable[[Masking], Masking] = identity
    first: Callable[[int, int], int] = first
    causal: Callable[[int, int, int], Tensor] = causal
    padding: Callable[[Tensor], Tensor] = padding_mask
    allow: Callable[[Tensor], Tensor] = identity
    split: Callable[[Tensor, int], Tensor] = split
    norm: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda query, key: (query, key)
    place: Callable[[Tensor, int], Tensor] = lambda x, first: x  # first: the position of the first vector
    share: Callable[[Tensor, int], Tensor] = share
    score: Callable[[Tensor, Tensor], Tensor] = dot
    scale: Callable[[Tensor, Sizes], Tensor] = scale
    add: Callable[[Tensor], Tensor] = identity
    hide: Callable[[Tensor, Tensor], Tensor] = hide
    normalise: Callable[[Tensor, Sizes], Tensor] = normalise
    forbid: Callable[[Tensor, Tensor], Tensor] = forbid
    weigh: Callable[[Tensor, Tensor, Tensor], Tensor] = weigh
    join: Callable[[Tensor], Tensor] = join
    finish: Callable[[Tensor, Tensor], Tensor] = lambda output, query: output  # query: what queries are projected from

    def __call__(self, inputs: Inputs) -> FormulaResult:
        """Raises an error of torch if a variant can't be computed for these shapes."""
        scores, value, key, sizes = self.scores(inputs)
        mask = self.mask(inputs.seen, *scores.shape[-2:])
        weights = self.normalise(scores if mask is None else self.hide(scores, mask), sizes)
        weights = weights if mask is None else self.forbid(weights, mask)
        output = self.weigh(weights, key, value)
        if inputs.projections is not None:
            last = self.projections(inputs.projections).output
            output = self.join(output) if last is None else last(self.join(output))
        output = self.finish(output, inputs.query)
        return FormulaResult(output, weights, None if mask is None else ~mask.expand_as(scores).any(-1))

    def scores(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, Sizes]:
        """Return the scores before any mask, `[batch, head, query, key]`, with the values, the keys and the sizes."""
        query, key, value = self.heads(inputs)
        sizes = Sizes(query.shape[-1], query.shape[-1] * query.shape[1], inputs.query.shape[-1])
        query, key = self.norm(query, key)
        query, key = self.place(query, self.first(query.shape[-2], key.shape[-2])), self.place(key, 0)
        return self.add(self.scale(self.score(query, key), sizes)), value, key, sizes

    def mask(self, seen: Masking, queries: int, keys: int) -> Tensor | None:
        """Return bool that broadcasts to `[batch, head, query, key]`, True = may attend; None hides nothing."""
        seen = self.seen(seen)
        mask = combine_masks(
            self.causal(queries, keys, self.first(queries, keys)) if seen.causal else None,
            None if seen.padding is None else self.padding(seen.padding),
            seen.pairs,
        )
        return None if mask is None else self.allow(mask)

    def heads(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of every head, `[batch, head, token, d]`."""
        key, value = (self.memory(inputs.query, x) for x in (inputs.key, inputs.value))
        if inputs.projections is None:
            return inputs.query, self.share(key, inputs.query.shape[1]), self.share(value, inputs.query.shape[1])
        by = self.projections(inputs.projections)
        query = self.split(by.query(inputs.query), inputs.heads)
        key_heads = by.key.weight.shape[0] * inputs.heads // by.query.weight.shape[0]
        key, value = (self.split(linear(x), key_heads) for linear, x in ((by.key, key), (by.value, value)))
        return query, self.share(key, inputs.heads), self.share(value, inputs.heads)


RIGHT = Formula()
