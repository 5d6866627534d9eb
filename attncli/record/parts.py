"""What a record is made of beside its weights: the model that it is of, and the vectors of its heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attncli.base.arrays import Floats
from attncli.base.untrusted import listed

VECTOR_ARRAYS = ("neurons", "query", "key")  # what vectors are called in files


@dataclass(frozen=True)
class ModelInfo:
    """Which model a record is of; the counts are the model's, not the record's."""

    name: str
    path: str
    sha256: str
    layers: int
    heads: int
    hidden_size: int


@dataclass(frozen=True)
class Vectors:
    """The queries and keys of some heads: what their scores are made of.

    With d = head_dim, a head's map is softmax(q k^T / sqrt(d)) over the keys that its mask allows, up to the
    rounding of the dtype that the model computed in.

    heads: (layer, head), their numbers in the model, each once. query, key: float32 `[head, token, head_dim]`,
    in the order of `heads`; not divided by sqrt(head_dim) yet.
    """

    heads: list[tuple[int, int]]
    query: Floats
    key: Floats

    def of(self, layer: int, head: int) -> tuple[Floats, Floats]:
        """Query and key of one head, `[token, head_dim]` each, by its numbers in the model.

        Raises KeyError for a head whose vectors are not here.
        """
        if (layer, head) not in self.heads:
            raise KeyError(f"the vectors of layer {layer}, head {head} are not in this record")
        place = self.heads.index((layer, head))
        return self.query[place], self.key[place]

    def select(self, layers: Sequence[int], heads: Sequence[int]) -> "Vectors | None":
        """The vectors of those heads that are among these layers and heads; None when there is none."""
        places = [place for place, (layer, head) in enumerate(self.heads) if layer in layers and head in heads]
        if not places:
            return None
        return Vectors([self.heads[place] for place in places], self.query[places], self.key[places])


def build_vectors(numbers: dict[str, Any], layers: list[int], heads: list[int], queries: int, keys: int) -> Vectors:
    """Vectors from arrays under VECTOR_ARRAYS. Raises ValueError where they don't fit the rest."""
    for name in VECTOR_ARRAYS:
        if name not in numbers:
            raise ValueError(f"it has vectors and no {name}")
    neurons, query, key = (numbers[name] for name in VECTOR_ARRAYS)
    pairs = pairs_of(neurons)
    if len(set(pairs)) != len(pairs) or not all(layer in layers and head in heads for layer, head in pairs):
        raise ValueError("neurons are not some of its heads, each once")
    for name, array, length in (("query", query, queries), ("key", key, keys)):
        if array.dtype != np.float32 or array.ndim != 3 or array.shape != (len(pairs), length, query.shape[-1]):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)} for {len(pairs)} heads, {length} tokens")
        if array.size == 0 or not np.isfinite(array).all():
            raise ValueError(f"{name} is empty or holds what is not a number")
    return Vectors(pairs, query, key)


def pairs_of(neurons: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """(layer, head) of each of some heads. Raises ValueError for what are no such pairs."""
    if neurons.dtype != np.int64 or neurons.ndim != 2 or neurons.shape[1] != 2:
        raise ValueError(f"neurons are {neurons.dtype} {list(neurons.shape)}, not pairs of layer and head")
    return [(layer, head) for layer, head in listed("neurons", neurons)]
