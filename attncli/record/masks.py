"""The cells of maps: what a measure allows in them, and which of them a mask hides.

There is one mask for all layers where they agree. In documents a mask is runs of keys per query, which are few.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attncli.base import choices
from attncli.base.arrays import Bools, Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.text.tokens import Tokens

LARGEST = float(np.finfo(np.float32).max)

# By how much a row's sum may miss what it should be. Files often have three digits; and a dtype rounds each weight. Of
# 512 tokens the rows of minilm miss 1 by 6e-7 in float32, 3e-4 in float16 and 3e-3 in bfloat16, and products of them by
# some more.
LEAST = 1e-3
WIDER = 8  # times the spacing of the dtype's numbers at 1
HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # that spacing, where it is wide
# In files of versions that did not say a dtype, of numbers that no half precision has: weights of bfloat16 may have
# been added up since, to those of words. One rounding changes a number by at most this share of it.
UNSAID = HALVES["bfloat16"] / 2


class Range(NamedTuple):
    """least, most: of a cell. sums: of a row, one of these; of norms they have none."""

    least: float
    most: float
    sums: tuple[float, ...] | None


MEASURES = {
    "weight": Range(0.0, 1.0, (0.0, 1.0)),
    "norm": Range(0.0, LARGEST, None),
    "share of norm": Range(0.0, 1.0, (0.0, 1.0)),
}


def room(dtype: str) -> float:
    """By how much the sum of a row may miss, of numbers that were computed in this dtype."""
    return max(LEAST, WIDER * HALVES.get(dtype, 0.0))


class Precision(NamedTuple):
    """dtype: what maps were computed in. room: by how much the sum of a row may miss, then."""

    dtype: str
    room: float


def precision_of(weights: Floats, measure: str, stated: str | None, sinks: bool = False) -> Precision:
    """Return the precision of a file's maps: what the file states, or what its numbers show.

    Where rows miss by more than float32 explains, and every number is one of half precision, they are of that.
    """
    if stated not in (None, "float32"):
        return Precision(stated, room(stated))
    half = next((name for name in ("bfloat16", "float16") if holds(weights[:1, :1], name) and holds(weights, name)), "")
    sums = MEASURES[measure].sums
    if half and sums:
        with np.errstate(all="ignore"):  # what is infinite is refused later
            missing = misses(weights.sum(axis=-1), sums, sinks)
        if (missing > LEAST).any():
            return Precision(half, room(half))
    return Precision("float32", UNSAID if stated is None else LEAST)


def holds(weights: Floats, half: str) -> bool:
    """Say whether every number is one of this half precision."""
    if half == "bfloat16":
        return not (np.ascontiguousarray(weights).view(np.uint32) & 0xFFFF).any()
    with np.errstate(all="ignore"):
        return bool((weights.astype(np.float16) == weights).all())


def misses(found: Floats, sums: tuple[float, ...], sinks: bool = False) -> Floats:
    """Return by how much sums of rows miss the nearest one that they may have; with sinks, all up to the largest."""
    if sinks:
        above: Floats = np.maximum(found - max(sums), 0)
        return above
    nearest: Floats = np.min([np.abs(found - one) for one in sums], axis=0)
    return nearest


def check_maps(weights: Floats, measure: str, room: float, sinks: bool = False) -> None:
    """Raises RequestError for maps `[layer, head, query, key]` that are not of this measure.

    room: by how much the sum of a row may miss what it is to be. sinks: whether a row may sum to any number up to 1.
    """
    least, most, sums = MEASURES[measure]
    if not (weights.min() >= least and weights.max() <= most + room):  # nor of NaN
        wrong = ~((weights >= least) & (weights <= most + room))
        layer, head, query, key = np.argwhere(wrong)[0]
        bounds = f"at least {least:g}" + (f" and at most {most:g}" if sums else "")
        raise RequestError(
            f"the {measure} of query {query} to key {key} in map {layer}, {head} is "
            f"{weights[layer, head, query, key]:g}: it is {bounds}; take weights after softmax"
        )
    if sums is None:
        return
    found = weights.sum(axis=-1)
    off = misses(found, sums, sinks) > room
    if off.any():
        layer, head, query = np.argwhere(off)[0]
        total = found[layer, head, query]
        wanted = f"not to {'at most ' if sinks else ''}{sums[-1]:g}"
        sunk = "if heads have sinks (gpt-oss), save it again (attncli run -o) or say sinks=True; else "
        advice = sunk if total < sums[-1] else ""
        raise RequestError(
            f"row {query} of map {layer}, {head} sums to {total:.4g} and {wanted}: "
            f"{advice}give all keys, after softmax and without dropout (model.eval()), "
            'or say measure="norm" of what is no weight '
            f"(rounding explains at most {room:.2g})"
        )


def check_hidden(hidden: Bools, tokens: Tokens, advice: str = "") -> None:
    """Raises RequestError where what a mask hides, `[layer, query, key]`, has weight in any head."""
    if hidden.any():
        layer, query, key = np.argwhere(hidden)[0]
        raise RequestError(
            f"the mask hides key {key} from query {query} ({printable(tokens.text[query])}), but in layer {layer} it "
            f"has weight there{advice}"
        )


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


Runs = list[list[list[int]]]  # of every query [start, end) of each run


def runs_of(mask: Bools) -> Runs:
    """Of a mask `[query, key]` for every query where keys that it may attend to begin and end."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    return [
        np.stack([np.flatnonzero(row == 1), np.flatnonzero(row == -1)], axis=1).tolist()  # [start, end)
        for row in edges
    ]


def mask_of(runs: Runs, queries: int, keys: int) -> Bools:
    """The mask that `runs_of` makes these of. Raises ValueError for what is no such runs."""
    if len(runs) != queries:
        raise ValueError(f"a mask is of {len(runs)} queries, and there are {queries}")
    mask = np.zeros((queries, keys), dtype=bool)
    for row, of_query in zip(mask, runs, strict=True):
        for start, end in of_query:
            if not 0 <= start < end <= keys:
                raise ValueError(f"a mask allows keys {start} to {end}, and there are {keys}")
            row[start:end] = True
    return mask


def entries(
    masks: Bools, layers: Sequence[int], name: str, tokens: Tokens, key_tokens: Tokens | None
) -> list[dict[str, Any]]:
    """What a document says of masks `[layer, query, key]`: each once, with its layers; nothing where all are what their
    name says.
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
    """The masks `[layer, query, key]` of which `entries` says this. Raises ValueError where it is not one a layer."""
    named = [layer for entry in found for layer in entry["layers"]]
    if sorted(named) != sorted(layers):
        raise ValueError(f"its masks are of layers {named}, not of {list(layers)}")
    by_layer = {
        layer: mask
        for entry in found
        for mask in [mask_of(entry["allowed"], queries, keys)]
        for layer in entry["layers"]
    }
    return np.stack([by_layer[layer] for layer in layers])
