"""Masks: which query may look at which key.

A mask is boolean and **True means "may attend"**. Masks broadcast against scores
`[batch, head, query, key]` and combine by "and". (Tutorials disagree on the sign: some add a mask of large
negative numbers where attention is forbidden, some multiply by 0 and 1. Here it is always the question
"may it?")

What a text may see of itself follows from rules, which are functions of one kind. Those that a user can ask for by
name are in `MASKS`; a network's layer may have rules of its own besides (`Window`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def causal_mask(query_len: int, key_len: int | None = None, device: torch.device | None = None) -> Tensor:
    """No query sees a key that comes after it: True where key <= query + (key_len - query_len).

    With fewer queries than keys, the queries are the *last* tokens of the sequence, as when a decoder goes
    on from keys it has cached: the last query sees every key. With more queries than keys, the first
    queries see nothing.

    Returns bool `[query, key]`. Source: Vaswani et al. 2017, section 3.2.3.
    """
    key_len = query_len if key_len is None else key_len
    everything = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    return everything.tril(diagonal=key_len - query_len)


def window_mask(
    reach: int,
    query_len: int,
    key_len: int | None = None,
    device: torch.device | None = None,
    first: int | None = None,
) -> Tensor:
    """No query sees further than `reach` tokens, to either side: True where |query - key| <= reach.

    Two-sided, the window of Beltagy et al. 2020 (Longformer), section 3.1: their width w is 2 reach. Together with
    `causal_mask` it is that of Jiang et al. 2023 (Mistral 7B), section 2, where each token sees itself and reach before
    it: their width W is reach + 1. A window as wide as the text hides nothing.

    first: the place of the first query, counted from the first key; without it the queries are the last tokens, as for
    `causal_mask`. Returns bool `[query, key]`.

    Raises ValueError when reach is negative: a token would not see itself.
    """
    if reach < 0:
        raise ValueError(f"a window reaches 0 tokens or more to each side, not {reach}")
    key_len = query_len if key_len is None else key_len
    everything = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    first = key_len - query_len if first is None else first
    return everything.triu(first - reach).tril(first + reach)


def padding_mask(attention_mask: Tensor) -> Tensor:
    """No query sees [PAD].

    `attention_mask` is what tokenizers give: `[batch, key]`, 1 for a real token, 0 for [PAD].
    Returns bool `[batch, 1, 1, key]`: the same for every head and every query.

    Raises ValueError when `attention_mask` is not 2-dimensional.
    """
    if attention_mask.dim() != 2:
        raise ValueError(f"a padding mask is made from [batch, key], not from shape {list(attention_mask.shape)}")
    return attention_mask.bool()[:, None, None, :]


def memory_mask(allowed: Tensor) -> Tensor:
    """Which part of a memory each query may see, in cross-attention.

    `allowed` is `[query, key]` (the same for the whole batch) or `[batch, query, key]`, True or 1 where the
    query may look. Returns bool `[1 or batch, 1, query, key]`: the same for every head.

    Raises ValueError when `allowed` has another number of dimensions.
    """
    if allowed.dim() not in (2, 3):
        raise ValueError(
            f"a memory mask is made from [query, key] or [batch, query, key], not from {list(allowed.shape)}"
        )
    return allowed.bool().reshape(-1, 1, *allowed.shape[-2:])


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """True where every mask is True. None hides nothing; without any mask the answer is None."""
    combined: Tensor | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


# Of texts of one length, by which tokens are real, bool `[text, token]`: bool, broadcasts to `[text, 1, query, key]`.
Rule = Callable[[Tensor], Tensor]


def no_padding(real: Tensor) -> Tensor:
    """Nobody sees [PAD]: bool `[text, 1, 1, key]`."""
    return padding_mask(real)


def no_future(real: Tensor) -> Tensor:
    """Nobody sees what comes after it: bool `[query, key]`."""
    return causal_mask(real.shape[1], device=real.device)


@dataclass(frozen=True)
class Window:
    """Nobody sees further than `reach` tokens, to either side: bool `[query, key]`, `window_mask` as a rule.

    Beside `no_future` it is a causal window.
    """

    reach: int

    def __call__(self, real: Tensor) -> Tensor:
        every = slice(0, real.shape[1])
        return self.near(every, every, real.device)

    def near(self, queries: slice, keys: slice, device: torch.device | None = None) -> Tensor:
        """The same for some queries and some keys of a text."""
        counts = queries.stop - queries.start, keys.stop - keys.start
        return window_mask(self.reach, *counts, device, first=queries.start - keys.start)

    def seen(self, queries: slice, keys: slice) -> slice:
        """Of these keys, counted from the first of them, those that any of some neighbouring queries sees."""
        start = min(max(queries.start - self.reach, keys.start), keys.stop)
        stop = max(min(queries.stop + self.reach, keys.stop), start)
        return slice(start - keys.start, stop - keys.start)


def self_mask(real: Tensor, *rules: Rule) -> Tensor:
    """What texts of one length may see of themselves: where every rule allows it; without any, everything.

    `real` is bool `[text, token]`, False at [PAD]. Returns bool `[1 or text, 1, 1 or query, key]`.
    """
    combined = combine_masks(*(rule(real) for rule in rules))
    if combined is None:
        return torch.ones(1, 1, 1, real.shape[1], dtype=torch.bool, device=real.device)
    return combined[(None,) * (4 - combined.dim())]


# What the names of masks mean to everyone who has to know: our networks, transformers, and what compares them.
MASKS: dict[str, tuple[Rule, ...]] = {"padding": (no_padding,), "causal": (no_padding, no_future), "none": ()}
