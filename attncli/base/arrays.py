"""Types of numpy arrays, whose shapes stand in the docstrings of the functions that use them; and the order of one."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def largest_first(numbers: Doubles) -> list[tuple[int, ...]]:
    """Return the places of numbers, those of the largest sizes first; equal ones as they stand."""
    order = np.argsort(-np.abs(numbers), axis=None, kind="stable")
    return list(zip(*(places.tolist() for places in np.unravel_index(order, numbers.shape)), strict=True))
