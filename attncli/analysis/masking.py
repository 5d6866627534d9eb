"""What a mask does to a head: how much weight had to move, and whether any is where it may not be.

All means are over the queries that are real tokens; [PAD] never counts as a query.
"""

from dataclasses import dataclass

import numpy as np

from attncli.analysis.patterns import counted_queries
from attncli.base.arrays import Doubles, Floats
from attncli.record import AttentionRecord


@dataclass(frozen=True)
class MaskEffect:
    """One mask on one head.

    moved: the total variation distance to the unmasked row, mean over queries: 0 where nothing moved, 1 where all
    of the weight is elsewhere; None where there is no row without the mask, which is built into a decoder.
    forbidden: the sum of the weights on positions that the mask hides; 0 if the mask works.
    """

    moved: float | None
    forbidden: float


def total_variation(weights: Floats, other: Floats, sinks: bool = False) -> Doubles:
    """½ Σ_key |w - w'|: how much weight must move to make one row the other. `[..., query, key]` -> `[..., query]`.

    sinks: the rest of a row, up to 1, is weight that goes to no token, and is counted as one more key.
    """
    difference = weights.astype(np.float64) - other.astype(np.float64)
    distance: Doubles = np.abs(difference).sum(axis=-1) / 2
    return distance + np.abs(difference.sum(axis=-1)) / 2 if sinks else distance


def mask_effects(masked: AttentionRecord, unmasked: AttentionRecord | None) -> dict[tuple[int, int], MaskEffect]:
    """What the masks of `masked` did to each head, by (layer, head). Both records are of the same tokens.

    From the second layer on the head's input differs as well, because the layers below were masked too.
    """
    effects = {}
    real = ~np.array(masked.tokens.padding)
    for layer in masked.layers:
        # What [PAD] looks at is of no account: transformers has it look everywhere where a window leaves it nothing.
        queries, hidden = counted_queries(masked, layer), ~masked.mask_of(layer) & real[:, None]
        for head in masked.heads:
            weights = masked.map(layer, head)
            moved = None
            if unmasked is not None:
                moved = mean(total_variation(weights, unmasked.map(layer, head), masked.sinks)[queries])
            effects[layer, head] = MaskEffect(moved, forbidden=float(weights[hidden].sum(dtype=np.float64)))
    return effects


def mean(distances: Doubles) -> float:
    """0 where there are none."""
    return float(distances.mean()) if len(distances) else 0.0


def leak_to_padding(record: AttentionRecord) -> dict[int, float]:
    """The share of real tokens' weight that goes to [PAD], by layer: mean over heads and queries."""
    real, padding = ~np.array(record.tokens.padding), np.array(record.keys.padding)
    weights = record.weights[:, :, real][..., padding]  # [layer, head, real query, [PAD] key]
    return {
        layer: float(leaked.sum(axis=-1, dtype=np.float64).mean())
        for layer, leaked in zip(record.layers, weights, strict=True)
    }
