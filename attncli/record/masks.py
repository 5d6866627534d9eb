"""Which keys the queries of each layer may attend to: one mask for all layers where they agree."""

from typing import NamedTuple

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.record.measures import check_hidden
from attncli.text.tokens import Tokens


def masks_of_layers(masks: Bools, shape: tuple[int, int, int]) -> Bools:
    """A mask `[query, key]`, or one a layer, as `[layer, query, key]` of this shape.

    Where the layers agree it is a view of one `[query, key]`. Raises ValueError for masks of another shape.
    """
    return np.broadcast_to(compact(masks) if masks.ndim == len(shape) else masks, shape)


def agree(masks: Bools) -> bool:
    """Whether all layers of `[layer, query, key]` have the same mask."""
    return masks.strides[0] == 0 or all(np.array_equal(masks[0], one) for one in masks[1:])


def compact(masks: Bools) -> Bools:
    """The one mask `[query, key]` of all layers where they agree, else `[layer, query, key]` as they are."""
    return masks[0] if agree(masks) else masks


class Found(NamedTuple):
    """The masks of maps from elsewhere, bool `[query, key]` or `[layer, query, key]`, and what they are called."""

    masks: Bools
    name: str


def find_masks(weights: Floats, tokens: Tokens, key_tokens: Tokens | None, given: str | Bools | None) -> Found:
    """The masks of maps `[layer, head, query, key]`: by their name or as they are given, else by where weight is.

    Not given, it is the first of `named_masks` that hides nothing that has weight in any head of any layer. Given as
    they are, they are called like the first that allows all that they allow. A query whose row is 0 in all heads of a
    layer may attend to nothing there; what [PAD] looks at as a query is allowed to it, whatever the mask.

    Raises RequestError for a mask that there is not, of another shape, or that hides what has weight.
    """
    seen = (weights > 0).any(axis=1)  # [layer, query, key]
    asks = ~np.array(tokens.padding)
    named = named_masks(tokens, key_tokens)
    if isinstance(given, np.ndarray):
        allowed = given.astype(bool)
        if allowed.shape not in (seen.shape, seen.shape[1:]):
            raise RequestError(
                f"the mask is {list(given.shape)}: [query, key] or [layer, query, key] is wanted, "
                f"{list(seen.shape[1:])} or {list(seen.shape)}"
            )
        name = next(name for name, mask in named.items() if not (allowed & ~mask)[..., asks, :].any())
    else:
        if given is not None:
            choices.check("mask", given, choices.Mask)
        name = given or next(name for name, mask in named.items() if not (seen & ~mask)[:, asks].any())
        if name not in named:
            raise RequestError(f"the mask {name} is of a text to itself, of two tokens at least: leave it out")
        allowed = named[name]
    advice = ": leave the mask out to find it by where weight is"
    check_hidden(seen & ~allowed & asks[:, None], tokens, advice)
    return Found((allowed | (seen & ~asks[:, None])) & seen.any(axis=-1, keepdims=True), name)


def named_masks(tokens: Tokens, key_tokens: Tokens | None) -> dict[str, Bools]:
    """What each mask that has a name allows, bool `[query, key]`: the strictest first, "none" last.

    Between two texts, and of one token to itself, there is no future to hide.
    """
    keys = tokens if key_tokens is None else key_tokens
    everything = np.ones((len(tokens), len(keys)), dtype=bool)
    padding = everything & ~np.array(keys.padding)
    masks = {"causal": np.tril(padding), "padding": padding, "none": everything}
    if key_tokens is not None or len(tokens) == 1:
        del masks["causal"]
    return masks
