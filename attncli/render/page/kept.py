"""What a small page holds: of all heads small maps, and some heads whole. A long text has both of all heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.base.arrays import Bools, Floats
from attncli.record import AttentionRecord
from attncli.render.page.levels import Scale
from attncli.render.page.pack import SCALES, pack_layer, pack_layers
from attncli.render.pooling import pool

WHOLE, SMALL = SCALES[-1], Scale(4, 256, 1, 0.1)  # how weights of whole heads and of small maps are stored
SIDES = (64, 48, 32, 24, 16)  # of a small map, in cells
SMALL_SHARE = 0.3  # of the room, for small maps


@dataclass(frozen=True)
class Kept:
    """heads: (layer, head) of those that are whole, the first of which the page opens at; of the others each cell is
    the largest of the weights that fall into it, `side` cells at most along each axis.
    """

    heads: list[tuple[int, int]]
    side: int

    @classmethod
    def within(cls, record: AttentionRecord, ranked: Sequence[tuple[int, int]], room: int) -> "Kept":
        """As much of a record as takes so many characters: of small maps the finest, then heads as they are ranked."""
        taken, side = 0, SIDES[-1]
        for side in SIDES:
            taken = sum(map(len, pack_layers(small_maps(record, side), SMALL)))
            if taken <= SMALL_SHARE * room:
                break
        heads = []
        for layer, head in ranked:
            taken += len(pack_layer(record.map(layer, head)[None], WHOLE))
            if taken > room:
                break
            heads.append((layer, head))
        return cls(heads, side)

    def of_layer(self, layer: int) -> list[int]:
        """The whole heads of a layer."""
        return sorted(head for of, head in self.heads if of == layer)

    def whole(self, record: AttentionRecord) -> list[Floats]:
        """The whole heads of each layer of a record, `[head, query, key]`."""
        return [
            layer[[record.heads.index(head) for head in self.of_layer(number)]]
            for number, layer in zip(record.layers, record.weights, strict=True)
        ]

    def opening(self) -> dict[str, Any]:
        """The state where an address says nothing: the first head that is whole, or, where none is, all of them."""
        if not self.heads:
            return {"view": "model"}
        layer, head = self.heads[0]
        return {"layer": layer, "head": head, "heads": [head]}


def small_maps(record: AttentionRecord, side: int) -> list[Floats]:
    """The small maps of each layer, `[head, query, key]`, at most `side` x `side`."""
    return [np.stack([pool(one, side, side) for one in layer]) for layer in record.weights]


def small_masks(record: AttentionRecord, side: int) -> Bools:
    """What may be attended to in the small maps, of all layers where they have one mask, else of each: a cell may be
    where anything of it may.
    """
    masks = record.compact_masks.astype(np.float32)
    return (pool(masks, side, side) if masks.ndim == 2 else np.stack([pool(one, side, side) for one in masks])) > 0
