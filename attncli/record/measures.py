"""What stands in the cells of maps, by what it measures: files, and maps from anywhere, are held to it."""

from typing import NamedTuple

import numpy as np

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
