"""Store q and k in a page as integers, with as many levels as fit, and measure the error of the resulting weights.

A number x of a head's q is stored as the level round(x / step), from -levels to levels, and read as level · step. k and
each term are stored in the same way. Each has its own step: its largest absolute value divided by `levels`. data.js
reads them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.printable import printable
from attncli.page.packing import compress, map_layers
from attncli.record import AttentionRecord, Vectors
from attncli.record.formula import softmax

FINEST, COARSEST = 32767, 63  # levels on either side of 0
ROOM = 600_000  # characters that q and k of a page may always take
A_BIT = 0.2  # characters for each bit of a number, at most
TRIED = 8  # heads per record, packed to estimate the size
TOGETHER = 2**19  # weights to compute at a time, to measure errors


@dataclass(frozen=True)
class Stored:
    """The vectors of one record as they are stored. of_layers: the packed levels of each layer's heads."""

    vectors: Vectors
    steps: list[list[float]]
    errors: list[float]
    of_layers: dict[int, Any]

    def entry(self, names: dict[int, str], levels: int) -> dict[str, Any]:
        """Describe the vectors for a page. names: of the chunks, by layer."""
        vectors, rotation, stored_rotation = self.vectors, self.vectors.rotation, None
        if rotation is not None:  # store each distinct list of rates once, and its index for each head
            rates, whose = np.unique(rotation.rates, axis=0, return_inverse=True)
            stored_rotation = {
                "rates": rates.tolist(),
                "whose": whose.ravel().tolist(),
                "pairs": rotation.pairs.tolist(),
                "queries": rotation.queries.tolist(),
                "keys": rotation.keys.tolist(),
            }
        return {
            "heads": vectors.heads,
            "size": vectors.query.shape[-1],
            "levels": levels,
            "scale": vectors.scale.tolist(),
            "steps": self.steps,
            "errors": self.errors,
            "terms": [printable(name) for name in vectors.terms],
            "rotation": stored_rotation,
            **({"sinks": [vectors.sink(*head) for head in vectors.heads]} if len(vectors.sinks) else {}),
            "chunks": {str(layer): name for layer, name in names.items()},
        }


def store(
    records: Sequence[AttentionRecord], room: float, pack: Callable[[bytes], Any] = compress
) -> tuple[int, list[Stored | None]]:
    """Return the number of levels, and the stored vectors of every record, None for a record without vectors.

    The vectors take at most `room` or ROOM characters, whichever is larger, if COARSEST levels allow it. pack: makes a
    chunk of the bytes of a layer.
    """
    levels = pick_levels([record.vectors for record in records if record.vectors is not None], max(room, ROOM))
    vectors = [record.vectors for record in records]
    return levels, [
        None if one is None else store_one(record, one, levels, pack)
        for record, one in zip(records, vectors, strict=True)
    ]


def pick_levels(every: Sequence[Vectors], room: float) -> int:
    """Return the largest number of levels with which these vectors fit into `room`, estimated from some heads."""
    if math.isinf(room):
        return FINEST
    some = [(one, range(0, len(one.heads), -(-len(one.heads) // TRIED))) for one in every]
    share = sum(len(places) for _, places in some) / max(1, sum(len(one.heads) for one in every))
    count = sum(array.size for one, places in some for place in places for array in parts_of(one, place))
    levels = FINEST
    while count and levels > COARSEST:
        taken = sum(len(compress(level_bytes(one, places, levels))) for one, places in some)
        if taken <= room * share:
            break
        levels = max(COARSEST, min(levels - 1, int(levels / 2 ** ((taken - room * share) / count / A_BIT))))
    return levels


def store_one(
    record: AttentionRecord, vectors: Vectors, levels: int, pack: Callable[[bytes], Any] = compress
) -> Stored:
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
    """Return the low bytes of all levels of these heads, then the high bytes.

    The order is q, k and terms of the first head, then of the next one. The lowest level is stored as 0.
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
    """Return, for each head, the largest error of weights computed from the stored q, k and terms."""
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
        found += [float(f"{one * 1.05:.1e}") for one in apart]  # two digits, rounded up
    return found


def nearest(heads: Doubles, levels: int) -> Doubles:
    """Return the values that the page reads for numbers `[head, ...]` stored in this many levels."""
    steps = np.abs(heads).max(axis=(1, 2), keepdims=True) / levels
    steps[steps == 0] = 1.0
    return np.rint(heads / steps) * steps


def weights(parts: Sequence[Doubles], scale: Doubles, mask: Bools, sinks: Doubles) -> Doubles:
    """Return softmax(scale q k^T + terms) over the keys that the mask allows, `[head, query, key]`.

    A row without such keys is 0. sinks: the heads' sink scores, which are part of the softmax; empty if no head has
    one.
    """
    query, key, *terms = parts
    scores = scale * (query @ key.swapaxes(-1, -2)) + sum(terms)
    return softmax(scores, mask, sinks[:, None, None] if len(sinks) else None).weights
