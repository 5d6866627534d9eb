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
