"""Masks in documents: of every query the runs of keys that it may attend to, which are few."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncli.base.arrays import Bools
from attncli.record.masks import named_masks
from attncli.text.tokens import Tokens

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
