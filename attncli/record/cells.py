"""Cells of maps as they are drawn: hidden ones are NaN, and large maps are pooled.

The code that pools, colours or numbers maps leaves NaN as it is, and draws it as hidden: grey and hatched.
"""

import numpy as np

from attncli.base.arrays import Bools, Floats
from attncli.record.record import AttentionRecord

# --- hidden cells -------------------------------------------------------------------------------------

HIDDEN = "hidden"  # what legends say


def drawn(weights: Floats, masks: Bools) -> Floats:
    """Return weights with NaN where the mask hides, `[..., query, key]`. A weight above 0 is drawn even there."""
    return np.where(masks | (weights > 0), weights, np.float32(np.nan))


def drawn_map(record: AttentionRecord, layer: int, head: int) -> Floats:
    """Return one head of a record as it is drawn, `[query, key]`, by its numbers in the model."""
    return drawn(record.map(layer, head), record.mask_of(layer))


def largest_weight(*maps: Floats) -> float:
    """Return the largest weight that is not hidden in these drawn maps; 0 where all are hidden."""
    return max(float(np.max(one, initial=0, where=~np.isnan(one))) for one in maps)


def hides(*maps: Floats) -> bool:
    """Return whether any cell of these drawn maps is hidden."""
    return any(bool(np.isnan(one).any()) for one in maps)


# --- pooling ------------------------------------------------------------------------------------------


def pool(weights: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map, in which a cell is the largest of the weights that fall into it, so that no peak is lost.

    Hidden cells (NaN) do not count: a cell is hidden where all cells that fall into it are.
    """
    for axis, most in ((0, rows), (1, columns)):
        length = weights.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            weights = np.fmax.reduceat(weights, starts, axis=axis)
    return weights


def pool_signed(numbers: Floats, rows: int, columns: int) -> Floats:
    """Return a smaller map of signed numbers, in which a cell is the number that is largest in size."""
    nothing = np.isnan(numbers)
    highest = pool(np.where(nothing, -np.inf, numbers), rows, columns)
    lowest = -pool(np.where(nothing, -np.inf, -numbers), rows, columns)
    found = np.where(highest >= -lowest, highest, lowest)
    return np.where(np.isinf(found), np.nan, found)
