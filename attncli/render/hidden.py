"""Maps as they are drawn: what may not be attended to is NaN there, which is no weight.

Whatever pools, colours or numbers maps leaves NaN what it is, and draws it as hidden: grey and hatched.
"""

import numpy as np

from attncli.base.arrays import Bools, Floats
from attncli.record import AttentionRecord

HIDDEN = "hidden"  # what legends say


def drawn(weights: Floats, masks: Bools) -> Floats:
    """Weights, with NaN where the mask hides; both `[..., query, key]`. What has weight all the same is seen."""
    return np.where(masks | (weights > 0), weights, np.float32(np.nan))


def drawn_map(record: AttentionRecord, layer: int, head: int) -> Floats:
    """One head of a record as it is drawn, `[query, key]`, by its numbers in the model."""
    return drawn(record.map(layer, head), record.mask_of(layer))


def largest_weight(*maps: Floats) -> float:
    """Of maps as they are drawn, the largest that is not hidden; 0 where all is."""
    return max(float(np.max(one, initial=0, where=~np.isnan(one))) for one in maps)


def hides(*maps: Floats) -> bool:
    """Whether anything is hidden in any of these maps as they are drawn."""
    return any(bool(np.isnan(one).any()) for one in maps)
