"""The cells of maps: the values that a measure allows, and the cells that a mask hides.

All layers share one mask if they agree. Documents store a mask compactly, as runs of keys per query.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.record.formula import MASKS, no_future, self_mask
from attncli.text.tokens import Tokens

LARGEST = float(np.finfo(np.float32).max)

# The tolerance of a row's sum. Files often have three digits, and a dtype rounds each weight. With 512 tokens, the rows
# of minilm miss 1 by 6e-7 in float32, 3e-4 in float16 and 3e-3 in bfloat16; products of them miss it by more.
LEAST = 1e-3
WIDER = 8  # tolerance as a multiple of the dtype's spacing at 1
HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # spacing at 1 of the half-precision dtypes
# The tolerance for files without a dtype. Old ones may hold sums of bfloat16 weights, as those of words. One rounding
# changes a number by at most this share of it.
NO_DTYPE = HALVES["bfloat16"] / 2


class Range(NamedTuple):
    """The valid values of a measure. least, most: of a cell. sums: the valid sums of a row; None for norms."""

    least: float
    most: float
    sums: tuple[float, ...] | None


MEASURES = {
    "weight": Range(0.0, 1.0, (0.0, 1.0)),
    "norm": Range(0.0, LARGEST, None),
    "share of norm": Range(0.0, 1.0, (0.0, 1.0)),
}


def room(dtype: str | None) -> float:
    """Return the tolerance of a row's sum for numbers computed in this dtype. None: the file doesn't state it."""
    return NO_DTYPE if dtype is None else max(LEAST, WIDER * HALVES.get(dtype, 0.0))


def check_maps(weights: Floats, measure: str, room: float, sinks: bool = False) -> None:
    """Raises RequestError if maps `[layer, head, query, key]` are not valid for this measure.

    room: the tolerance of a row's sum. sinks: a row may sum to any number up to 1.
    """
    least, most, sums = MEASURES[measure]
    if not (weights.min() >= least and weights.max() <= most + room):  # False for NaN too
        wrong = ~((weights >= least) & (weights <= most + room))
        layer, head, query, key = np.argwhere(wrong)[0]
        bounds = f"at least {least:g}" + (f" and at most {most:g}" if sums else "")
        raise RequestError(
            f"the {measure} of query {query} to key {key} in map {layer}, {head} is "
            f"{weights[layer, head, query, key]:g}: it must be {bounds}; use weights after softmax"
        )
    if sums is None:
        return
    found = weights.sum(axis=-1)
    nearest: Floats = np.min([np.abs(found - one) for one in sums], axis=0)
    off = (found - max(sums) if sinks else nearest) > room
    if off.any():
        layer, head, query = np.argwhere(off)[0]
        total = found[layer, head, query]
        wanted = f"not to {'at most ' if sinks else ''}{sums[-1]:g}"
        sunk = "if heads have sinks (gpt-oss), save it again (attncli run -o) or pass sinks=True; otherwise "
        advice = sunk if total < sums[-1] else ""
        raise RequestError(
            f"row {query} of map {layer}, {head} sums to {total:.4g} and {wanted}: "
            f"{advice}give all keys, after softmax and without dropout (model.eval()), "
            'or pass measure="norm" for values that are not weights '
            f"(rounding explains at most {room:.2g})"
        )


def check_hidden(hidden: Bools, tokens: Tokens, advice: str = "") -> None:
    """Raises RequestError if a cell that the mask hides, `[layer, query, key]`, has weight in any head."""
    if hidden.any():
        layer, query, key = np.argwhere(hidden)[0]
        raise RequestError(
            f"the mask hides key {key} from query {query} ({printable(tokens.text[query])}), but layer {layer} has "
            f"weight there{advice}"
        )


def agree(masks: Bools) -> bool:
    """Return True if all layers of `[layer, query, key]` have the same mask."""
    return masks.strides[0] == 0 or all(np.array_equal(masks[0], one) for one in masks[1:])


def compact(masks: Bools) -> Bools:
    """Return one mask `[query, key]` if all layers agree, else `[layer, query, key]` unchanged."""
    return masks[0] if agree(masks) else masks


class NamedMasks(NamedTuple):
    """The masks of maps from elsewhere, bool `[query, key]` or `[layer, query, key]`, and their name."""

    masks: Bools
    name: str


def find_masks(weights: Floats, tokens: Tokens, key_tokens: Tokens | None, given: str | Bools | None) -> NamedMasks:
    """Return the masks of maps `[layer, head, query, key]`: named, given as an array, or inferred from the weights.

    An inferred mask is the first of `named_masks` that hides no weight in any head of any layer. A mask array gets the
    name of the first that allows everything it allows. A query whose row is 0 in all heads of a layer has all its keys
    hidden there. Keys with weight from a [PAD] query are allowed to it by every mask.

    Raises RequestError for an unknown mask, a wrong shape, or a mask that hides weight.
    """
    seen = (weights > 0).any(axis=1)  # [layer, query, key]
    real = ~np.array(tokens.padding)
    named = named_masks(tokens, key_tokens)
    if isinstance(given, np.ndarray):
        allowed = given.astype(bool)
        if allowed.shape not in (seen.shape, seen.shape[1:]):
            raise RequestError(
                f"the mask is {list(given.shape)}, not [query, key] or [layer, query, key], "
                f"{list(seen.shape[1:])} or {list(seen.shape)}"
            )
        name = next(name for name, mask in named.items() if not (allowed & ~mask)[..., real, :].any())
    else:
        if given is not None:
            choices.check("mask", given, choices.MaskName)
        name = given or next(name for name, mask in named.items() if not (seen & ~mask)[:, real].any())
        if name not in named:
            raise RequestError(f"the mask {name} requires self-attention and at least two tokens: omit it")
        allowed = named[name]
    advice = ": omit the mask to infer it from the weights"
    check_hidden(seen & ~allowed & real[:, None], tokens, advice)
    return NamedMasks((allowed | (seen & ~real[:, None])) & seen.any(axis=-1, keepdims=True), name)


def named_masks(tokens: Tokens, key_tokens: Tokens | None) -> dict[str, Bools]:
    """Return the cells that each named mask allows, bool `[query, key]`: the strictest first, "none" last.

    Between two texts, and for a single token, there is no future to hide.
    """
    keys = tokens if key_tokens is None else key_tokens
    everything, real = np.ones((len(tokens), len(keys)), dtype=bool), ~np.array([keys.padding])
    no_order = key_tokens is not None or len(tokens) == 1
    return {
        name: everything & self_mask(real, *rules)[0, 0]
        for name, rules in MASKS.items()
        if not (no_order and no_future in rules)
    }


Runs = list[list[list[int]]]  # for each query, [start, end) of each run


def runs_of(mask: Bools) -> Runs:
    """Return the runs of allowed keys of each query in a mask `[query, key]`."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    return [
        np.stack([np.flatnonzero(row == 1), np.flatnonzero(row == -1)], axis=1).tolist()  # [start, end)
        for row in edges
    ]


def mask_of(runs: Runs, queries: int, keys: int) -> Bools:
    """Return the mask of these runs, the inverse of `runs_of`. Raises ValueError for invalid runs."""
    if len(runs) != queries:
        raise ValueError(f"a mask has {len(runs)} queries, but there are {queries}")
    mask = np.zeros((queries, keys), dtype=bool)
    for row, of_query in zip(mask, runs, strict=True):
        for start, end in of_query:
            if not 0 <= start < end <= keys:
                raise ValueError(f"a mask allows keys {start} to {end}, but there are {keys}")
            row[start:end] = True
    return mask


def entries(
    masks: Bools, layers: Sequence[int], name: str, tokens: Tokens, key_tokens: Tokens | None
) -> list[dict[str, Any]]:
    """Return the masks `[layer, query, key]` as stored in a document: each distinct one with its layers.

    Empty if all masks equal the mask of their name.
    """
    named = named_masks(tokens, key_tokens)
    if name in named and all(np.array_equal(mask, named[name]) for mask in masks):
        return []
    found: list[tuple[Bools, list[int]]] = []
    for layer, mask in zip(layers, masks, strict=True):
        same = next((of for one, of in found if np.array_equal(one, mask)), None)
        if same is None:
            found.append((mask, [layer]))
        else:
            same.append(layer)
    return [{"layers": of, "allowed": runs_of(mask)} for mask, of in found]


def masks_of(found: Sequence[dict[str, Any]], layers: Sequence[int], queries: int, keys: int) -> Bools:
    """Return the masks `[layer, query, key]` of these `entries`. Raises ValueError unless there is one per layer."""
    named = [layer for entry in found for layer in entry["layers"]]
    if sorted(named) != sorted(layers):
        raise ValueError(f"its masks are for layers {named}, not for {list(layers)}")
    by_layer = {
        layer: mask
        for entry in found
        for mask in [mask_of(entry["allowed"], queries, keys)]
        for layer in entry["layers"]
    }
    return np.stack([by_layer[layer] for layer in layers])
