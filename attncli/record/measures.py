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
ANY = WIDER * HALVES["bfloat16"]  # in a file, which holds float32 whatever they were computed in


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


def check_maps(weights: Floats, measure: str, room: float) -> None:
    """Raises RequestError for maps `[layer, head, query, key]` that are not of this measure."""
    least, most, sums = MEASURES[measure]
    if not (weights.min() >= least and weights.max() <= most + room):  # nor of NaN
        wrong = ~((weights >= least) & (weights <= most + room))
        layer, head, query, key = np.argwhere(wrong)[0]
        raise RequestError(
            f"the {measure} of query {query} to key {key} in map {layer}, {head} is "
            f"{weights[layer, head, query, key]:g}: weights are at least 0; take them after softmax"
        )
    if sums is None:
        return
    found = weights.sum(axis=-1)
    off = np.min([np.abs(found - one) for one in sums], axis=0) > room
    if off.any():
        layer, head, query = np.argwhere(off)[0]
        raise RequestError(
            f"row {query} of map {layer}, {head} sums to {found[layer, head, query]:.4g} and not to {sums[-1]:g}: give "
            'all keys, after softmax and without dropout (model.eval()), or say measure="norm" of what is no weight'
        )


def check_hidden(hidden: Bools, tokens: Tokens, advice: str = "") -> None:
    """Raises RequestError where what a mask hides, `[layer, query, key]`, has weight in any head."""
    if hidden.any():
        layer, query, key = np.argwhere(hidden)[0]
        raise RequestError(
            f"the mask hides key {key} from query {query} ({printable(tokens.text[query])}), but in layer {layer} it "
            f"has weight there{advice}"
        )
