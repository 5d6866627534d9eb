"""Masks: which query may attend to which key.

A mask is boolean and **True means "may attend"**. Masks broadcast against scores
`[batch, head, query, key]` and combine by "and". (Tutorials disagree on the sign: some add a mask of large
negative numbers where attention is forbidden, some multiply by 0 and 1.)

Masks of self-attention are built from rules: functions with one signature (`Rule`). The masks that users can
select by name are in `MASKS`. A network's layers may have additional rules (`Window`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def causal_mask(
    query_len: int, key_len: int | None = None, device: torch.device | None = None, first: int | None = None
) -> Tensor:
    """Hide keys after the query: True where key <= query + first.

    first: the position of the first query, counted from the first key. By default it is key_len - query_len. With fewer
    queries than keys, the queries are then the *last* tokens of the sequence, as when a decoder continues from cached
    keys: the last query sees every key. With more queries than keys, the first queries see nothing.

    Returns bool `[query, key]`. Source: Vaswani et al. 2017, section 3.2.3.
    """
    key_len = query_len if key_len is None else key_len
    everything = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    return everything.tril_(diagonal=key_len - query_len if first is None else first)


def window_mask(
    reach: int,
    query_len: int,
    key_len: int | None = None,
    device: torch.device | None = None,
    first: int | None = None,
) -> Tensor:
    """Hide keys further than `reach` tokens to either side: True where |query + first - key| <= reach.

    Two-sided, it is the window of Beltagy et al. 2020 (Longformer), section 3.1, with width w = 2 reach. Combined with
    `causal_mask` it is that of Jiang et al. 2023 (Mistral 7B), section 2, where each token sees itself and `reach`
    tokens before it, with width W = reach + 1. A window as wide as the text hides nothing.

    first: the position of the first query, counted from the first key. By default the queries are the last tokens, as
    in `causal_mask`. Returns bool `[query, key]`.

    Raises ValueError if reach is negative: a token would not see itself.
    """
    if reach < 0:
        raise ValueError(f"a window must reach at least 0 tokens to each side, not {reach}")
    key_len = query_len if key_len is None else key_len
    everything = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    first = key_len - query_len if first is None else first
    return everything.triu(first - reach).tril(first + reach)


def padding_mask(attention_mask: Tensor) -> Tensor:
    """Hide [PAD] from all queries.

    `attention_mask` is a tokenizer's: `[batch, key]`, 1 for a real token, 0 for [PAD].
    Returns bool `[batch, 1, 1, key]`, shared by all heads and queries.

    Raises ValueError if `attention_mask` is not 2-dimensional.
    """
    if attention_mask.dim() != 2:
        raise ValueError(f"a padding mask is made from [batch, key], not from shape {list(attention_mask.shape)}")
    return attention_mask.bool()[:, None, None, :]


def memory_mask(allowed: Tensor) -> Tensor:
    """Return the part of a memory that each query may see in cross-attention.

    `allowed` is `[query, key]` (for the whole batch) or `[batch, query, key]`, True or 1 where the
    query may attend. Returns bool `[1 or batch, 1, query, key]`, shared by all heads.

    Raises ValueError if `allowed` has another number of dimensions.
    """
    if allowed.dim() not in (2, 3):
        raise ValueError(
            f"a memory mask is made from [query, key] or [batch, query, key], not from {list(allowed.shape)}"
        )
    return allowed.bool().reshape(-1, 1, *allowed.shape[-2:])


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Combine masks by "and". None hides nothing. Returns None if there is no mask."""
    combined: Tensor | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


# A rule takes texts of one length as bool `[text, token]`, False at [PAD]. It returns a mask that broadcasts to
# `[text, 1, query, key]`.
Rule = Callable[[Tensor], Tensor]


def no_padding(real: Tensor) -> Tensor:
    """Hide [PAD]: bool `[text, 1, 1, key]`."""
    return padding_mask(real)


def no_future(real: Tensor) -> Tensor:
    """Hide later tokens: bool `[query, key]`."""
    return causal_mask(real.shape[1], device=real.device)


@dataclass(frozen=True)
class Window:
    """A rule that hides tokens further than `reach` to either side (`window_mask`): bool `[query, key]`.

    Together with `no_future` it is a causal window.
    """

    reach: int

    def __call__(self, real: Tensor) -> Tensor:
        whole = slice(0, real.shape[1])
        return self.near(whole, whole, real.device)

    def near(self, queries: slice, keys: slice, device: torch.device | None = None) -> Tensor:
        """Return the mask between these queries and keys of a text."""
        counts = queries.stop - queries.start, keys.stop - keys.start
        return window_mask(self.reach, *counts, device, first=queries.start - keys.start)

    def visible_keys(self, queries: slice, keys: slice) -> slice:
        """Return the range of keys that any of these queries sees, counted from the first key passed in."""
        start = min(max(queries.start - self.reach, keys.start), keys.stop)
        stop = max(min(queries.stop + self.reach, keys.stop), start)
        return slice(start - keys.start, stop - keys.start)


def self_mask(real: Tensor, *rules: Rule) -> Tensor:
    """Return the self-attention mask of texts of one length: the rules combined by "and"; no rules hide nothing.

    `real` is bool `[text, token]`, False at [PAD]. Returns bool `[1 or text, 1, 1 or query, key]`.
    """
    combined = combine_masks(*(rule(real) for rule in rules))
    if combined is None:
        return torch.ones(1, 1, 1, real.shape[1], dtype=torch.bool, device=real.device)
    return combined[(None,) * (4 - combined.dim())]


# The rules of named masks, for our networks, those of transformers, and the comparisons between them.
MASKS: dict[str, tuple[Rule, ...]] = {"padding": (no_padding,), "causal": (no_padding, no_future), "none": ()}
