"""The mistakes that people make in functions that give a mask."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes.formula import same
from attncli.attention.mistakes.known import Mistake

TOO_SMALL, NO_NUMBER, WRONG_SIGN = "number too small", "0 times -inf", "added with the wrong sign"
HEADS_MIXED = "heads before texts"


def both(first: Tensor, second: Tensor) -> Tensor:
    return first & second


def either(first: Tensor, second: Tensor) -> Tensor:
    return first | second


def as_keys(real: Tensor) -> Tensor:
    """bool `[batch, token]` -> `[batch, 1, key]`."""
    return real[:, None, :]


@dataclass(frozen=True)
class MaskFormula:
    """Who may look at whom, bool `[batch, query, key]`, True = may attend.

    Every field is a step; the defaults are right.
    """

    causal: Callable[[int, int], Tensor] = causal_mask
    padding: Callable[[Tensor], Tensor] = as_keys
    combine: Callable[[Tensor, Tensor], Tensor] = both
    allow: Callable[[Tensor], Tensor] = same

    def __call__(self, kind: str, real: Tensor, queries: int) -> Tensor:
        """kind: "causal", "padding" or "combined"; real: bool `[batch, key]`, False at [PAD].

        Raises RuntimeError where a variant can't be computed for these lengths.
        """
        shape = (real.shape[0], queries, real.shape[1])
        if kind == "causal":
            allowed = self.causal(queries, real.shape[1])
        elif kind == "padding":
            allowed = self.padding(real)
        else:
            allowed = self.combine(self.padding(real), self.causal(queries, real.shape[1]))
        return self.allow(allowed).expand(shape)


def from_the_first(queries: int, keys: int) -> Tensor:
    """The first query stands at the first key, as in torch's `is_causal`."""
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def shifted(tokens: int, queries: int, keys: int) -> Tensor:
    """Each query sees so many tokens after itself."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + tokens)


def between_real(real: Tensor) -> Tensor:
    return real[:, None, :] & real[:, :, None]


def longer(real: Tensor) -> Tensor:
    return as_keys(real | real.roll(1, dims=1) & (torch.arange(real.shape[1]) > 0))


def shorter(real: Tensor) -> Tensor:
    return as_keys(real & real.roll(-1, dims=1) & (torch.arange(real.shape[1]) < real.shape[1] - 1))


# In this order: of two that give the same numbers, as True = allowed and True = forbidden, the first is the likelier.
MISTAKES_OF_MASKS: tuple[Mistake, ...] = (
    Mistake(
        "mask inverted",
        "the other way round than it is said to be",
        "True is taken for forbidden where it means allowed, or the other way round: libraries differ",
        "negate the mask",
        "means",
        ({"allow": lambda allowed: ~allowed},),
    ),
    Mistake(
        "causal off by one",
        "in which each query sees the next token",
        "triu(diagonal=2), tril(diagonal=1): the diagonal is counted from the wrong side",
        "a query sees itself and what stands before it: tril()",
        "causal",
        ({"causal": partial(shifted, 1)},),
    ),
    Mistake(
        "causal hides itself",
        "in which no query sees itself, and the first sees nothing",
        "triu() for what is forbidden, which has the diagonal, or < in the place of <=",
        "a query sees itself and what stands before it: tril() for what is allowed, triu(1) for what is forbidden",
        "causal",
        ({"causal": partial(shifted, -1)},),
    ),
    Mistake(
        "causal the wrong way",
        "in which each query sees itself and what comes after",
        "triu in the place of tril, or rows taken for keys",
        "a query sees itself and what stands before it: tril()",
        "causal",
        (
            {"causal": lambda queries, keys: causal_mask(keys, queries).mT},
            {"causal": lambda queries, keys: ~causal_mask(queries, keys)},
        ),
    ),
    Mistake(
        "[PAD] hidden as query",
        "in which [PAD] does not look, and is looked at",
        "unsqueeze(-1) in the place of unsqueeze(-2)",
        "hide [PAD] as key: [batch, 1, 1, key]",
        "padding",
        ({"padding": lambda real: real[:, :, None]},),
    ),
    Mistake(
        "[PAD] forgotten",
        "in which [PAD] is looked at",
        "the causal mask is returned alone, and what tells [PAD] is taken and never used",
        "hide [PAD] as key; with a causal mask: causal & padding, of what is allowed",
        "combine",
        ({"padding": lambda real: as_keys(real | True)},),
    ),
    Mistake(
        "causal forgotten",
        "in which a query sees what comes after it",
        "the padding mask is returned alone",
        "combine it with the causal mask: causal & padding, of what is allowed",
        "combine",
        ({"causal": lambda queries, keys: torch.ones(queries, keys, dtype=torch.bool)},),
    ),
    Mistake(
        "masks combined by or",
        "in which a query sees what one of both masks forbids",
        '"or" of what is allowed, or "and" of what is forbidden; a maximum, or a minimum, of the wrong ones',
        '"and" of what is allowed, "or" of what is forbidden',
        "combine",
        ({"combine": either},),
    ),
    Mistake(
        "first text's [PAD] for all",
        "in which the [PAD] of the first text is hidden in all texts",
        "mask[0], or a mask that is made of one text and broadcast",
        "a mask of [batch, 1, 1, key], each text by its own [PAD]",
        "padding",
        ({"padding": lambda real: as_keys(real[:1].expand_as(real))},),
    ),
    Mistake(
        "length off by one",
        "in which texts are one token longer or shorter than they are",
        "arange <= length, or arange < length - 1",
        "a text of n tokens has the places 0 to n - 1: arange(max_len) < length[:, None]",
        "length",
        ({"padding": longer}, {"padding": shorter}),
    ),
)

# Those that show in its dimensions and its numbers, whatever it hides.
MISTAKES_OF_FORM: tuple[Mistake, ...] = (
    Mistake(
        TOO_SMALL,
        "with a number for what is forbidden that large scores outweigh",
        "-1, -100, or mask - 1 without a factor",
        "add -inf, or torch.finfo(dtype).min",
        "number",
        (),
    ),
    Mistake(
        NO_NUMBER,
        "with NaN where it should add 0",
        "(1 - mask) * -inf: 0 times infinity is no number",
        "zeros.masked_fill(forbidden, -inf)",
        "number",
        (),
    ),
    Mistake(
        WRONG_SIGN,
        "with a large number added where it is forbidden, so that nothing else is looked at",
        "1e9 in the place of -1e9, or mask - 1 with the sign of 1 - mask",
        "add -inf where it is forbidden",
        "number",
        (),
    ),
    Mistake(
        HEADS_MIXED,
        "for each head all texts, where torch has for each text all heads",
        "repeat(heads, 1, 1) in the place of repeat_interleave(heads, dim=0)",
        "repeat_interleave(heads, dim=0): [batch · head, query, key]",
        "share",
        (),
    ),
)
