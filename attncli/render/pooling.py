"""Maps with fewer cells, for where there is no room for all of them."""

import numpy as np

from attncli.base.arrays import Floats


def pool(weights: Floats, rows: int, columns: int) -> Floats:
    """A smaller map in which a cell is the largest of the weights that fall into it, so that no peak is lost.

    What is hidden (NaN) is no weight: a cell is hidden where all that falls into it is.
    """
    for axis, most in ((0, rows), (1, columns)):
        length = weights.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            weights = np.fmax.reduceat(weights, starts, axis=axis)
    return weights


def pool_signed(numbers: Floats, rows: int, columns: int) -> Floats:
    """The same of numbers of either sign: the one that is largest in size; NaN where there is nothing else."""
    nothing = np.isnan(numbers)
    highest = pool(np.where(nothing, -np.inf, numbers), rows, columns)
    lowest = -pool(np.where(nothing, -np.inf, -numbers), rows, columns)
    found = np.where(highest >= -lowest, highest, lowest)
    return np.where(np.isinf(found), np.nan, found)
