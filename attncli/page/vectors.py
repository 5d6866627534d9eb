"""q and k as a page holds them: as whole numbers, as finely as there is room, with how far that moves the weights.

A number x of a head's q is stored as the level round(x / step) from -levels to levels, and read as level · step; so are
those of its k and of each of its terms, with a step each: the largest of them is `levels` steps. data.js reads it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.printable import printable
from attncli.page.packing import map_layers, packed
from attncli.record import AttentionRecord, Vectors
from attncli.record.formula import softmax

FINEST, COARSEST = 32767, 63  # levels on either side of 0
LEAST = 1.05  # characters for a number in the coarsest, about
MOST = 2.6  # and in the finest
ROOM = 600_000  # characters of a page for q and k, where its weights take less
A_BIT = 0.2  # characters for each bit of a number, at most
TRIED = 8  # heads of a record
TOGETHER = 2**19  # weights that are made at once, to find out how far what is stored moves them


@dataclass(frozen=True)
class Stored:
    """The vectors of one record as they are stored. of_layers: the packed levels of each layer's heads."""

    vectors: Vectors
    steps: list[list[float]]
    errors: list[float]
    of_layers: dict[int, Any]

    def entry(self, names: dict[int, str], levels: int) -> dict[str, Any]:
        """Describe the vectors for a page. names: of each layer's chunk."""
        vectors, turning, turned = self.vectors, self.vectors.turning, None
        if turning is not None:  # each list of rates once, and which head has which
            rates, whose = np.unique(turning.rates, axis=0, return_inverse=True)
            turned = {
                "rates": rates.tolist(),
                "whose": whose.ravel().tolist(),
                "pairs": turning.pairs.tolist(),
                "queries": turning.queries.tolist(),
                "keys": turning.keys.tolist(),
            }
        return {
            "heads": vectors.heads,
            "size": vectors.query.shape[-1],
            "levels": levels,
            "scale": vectors.scale.tolist(),
            "steps": self.steps,
            "errors": self.errors,
            "terms": [printable(name) for name in vectors.terms],
            "turning": turned,
            **({"sinks": [vectors.sink(*head) for head in vectors.heads]} if len(vectors.sinks) else {}),
            "chunks": {str(layer): name for layer, name in names.items()},
        }


def store(
    records: Sequence[AttentionRecord], rest: float, pack: Callable[[bytes], Any] = packed
) -> tuple[int, list[Stored | None]]:
    """Store the vectors of every record, None where it has none; return the number of levels too.

    There are as many levels as let the vectors take at most the `rest` of a page's numbers, or ROOM, and at least
    COARSEST. pack: makes a chunk of the levels of a layer.
    """
    levels = pick_levels([record.vectors for record in records if record.vectors is not None], max(rest, ROOM))
    vectors = [record.vectors for record in records]
    return levels, [
        None if one is None else stored(record, one, levels, pack) for record, one in zip(records, vectors, strict=True)
    ]


def pick_levels(every: Sequence[Vectors], room: float) -> int:
    """Return the finest levels in which these vectors take so many characters, estimated from some heads."""
    if math.isinf(room):
        return FINEST
    some = [(one, range(0, len(one.heads), -(-len(one.heads) // TRIED))) for one in every]
    share = sum(len(places) for _, places in some) / max(1, sum(len(one.heads) for one in every))
    count = sum(array.size for one, places in some for place in places for array in parts_of(one, place))
    levels = FINEST
    while count and levels > COARSEST:
        taken = sum(len(packed(level_bytes(one, places, levels))) for one, places in some)
        if taken <= room * share:
            break
        levels = max(COARSEST, min(levels - 1, int(levels / 2 ** ((taken - room * share) / count / A_BIT))))
    return levels


def stored(record: AttentionRecord, vectors: Vectors, levels: int, pack: Callable[[bytes], Any] = packed) -> Stored:
    layers = list(dict.fromkeys(layer for layer, _ in vectors.heads))
    places = [[place for place, (of, _) in enumerate(vectors.heads) if of == layer] for layer in layers]
    numbers = sum(array.size for array in (vectors.query, vectors.key, *vectors.terms.values())) // max(1, len(layers))
    texts = map_layers(lambda some: pack(level_bytes(vectors, some, levels)), places, numbers)
    steps = [[step_of(array, levels) for array in parts_of(vectors, place)] for place in range(len(vectors.heads))]
    return Stored(vectors, steps, errors(record, vectors, levels), dict(zip(layers, texts, strict=True)))


def parts_of(vectors: Vectors, place: int) -> list[Floats]:
    """Return the stored parts of the head at this place: q, k and its terms."""
    return [vectors.query[place], vectors.key[place], *(term[place] for term in vectors.terms.values())]


def level_bytes(vectors: Vectors, places: Sequence[int], levels: int) -> bytes:
    """Return the low bytes of all levels of these heads, then the high ones.

    The q, k and terms of a head follow each other; the lowest level is 0.
    """
    numbers = [
        np.rint(array.astype(np.float64) / step_of(array, levels)).ravel()
        for place in places
        for array in parts_of(vectors, place)
    ]
    whole: npt.NDArray[np.uint16] = (np.concatenate(numbers) + levels).astype("<u2")
    return whole.view(np.uint8).reshape(-1, 2).T.tobytes()


def step_of(array: Floats, levels: int) -> float:
    """Return the distance between levels."""
    return float(np.abs(array).max()) / levels or 1.0


def errors(record: AttentionRecord, vectors: Vectors, levels: int) -> list[float]:
    """Return, for each head, the largest difference between weights from the stored q and k and from the true ones."""
    whole = [vectors.query, vectors.key, *vectors.terms.values()]
    together = max(1, TOGETHER // (vectors.query.shape[1] * vectors.key.shape[1]))
    found: list[float] = []
    for start in range(0, len(vectors.heads), together):
        some = slice(start, start + together)
        exact = [part[some].astype(np.float64) for part in whole]
        read = [nearest(part, levels) for part in exact]
        scale = vectors.scale[some, None, None].astype(np.float64)
        mask = np.stack([record.mask_of(layer) for layer, _ in vectors.heads[some]])
        sinks = vectors.sinks[some].astype(np.float64)
        apart = np.abs(weights(exact, scale, mask, sinks) - weights(read, scale, mask, sinks)).max(axis=(1, 2))
        found += [float(f"{one * 1.05:.1e}") for one in apart]  # rounded, and not below what it is
    return found


def nearest(heads: Doubles, levels: int) -> Doubles:
    """Return the values that are read of numbers `[head, ...]` that are stored in so many levels."""
    steps = np.abs(heads).max(axis=(1, 2), keepdims=True) / levels
    steps[steps == 0] = 1.0
    return np.rint(heads / steps) * steps


def weights(parts: Sequence[Doubles], scale: Doubles, mask: Bools, sinks: Doubles) -> Doubles:
    """Return softmax(scale q k^T + terms) over the keys that the mask allows, `[head, query, key]`; 0 for none.

    sinks: the heads' sink scores, which take part too; empty if none has one.
    """
    query, key, *terms = parts
    scores = scale * (query @ key.swapaxes(-1, -2)) + sum(terms)
    return softmax(scores, mask, sinks[:, None, None] if len(sinks) else None).weights
