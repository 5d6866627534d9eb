"""The few operations of taps that torch and NumPy write differently. Importing this does not import torch."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from attncli.base.arrays import Ints

Array: TypeAlias = Any  # a torch.Tensor or a numpy.ndarray


def stack(arrays: Sequence[Array], axis: int) -> Array:
    """Join arrays of one shape along a new axis."""
    if isinstance(arrays[0], np.ndarray):
        return np.stack(arrays, axis)
    import torch

    return torch.stack(list(arrays), axis)


def lengths(vectors: Array) -> Array:
    """Return the Euclidean norm of vectors, `[..., size]` -> `[...]`."""
    return np.linalg.norm(vectors, axis=-1) if isinstance(vectors, np.ndarray) else vectors.norm(dim=-1)


def tanh(array: Array) -> Array:
    """Return the hyperbolic tangent of every element."""
    return np.tanh(array) if isinstance(array, np.ndarray) else array.tanh()


def add_columns(columns: Array, count: int, targets: Ints) -> Array:
    """Add up columns `[..., column]` by their target, `[..., count]`; `targets` gives each column's, ascending."""
    if isinstance(columns, np.ndarray):
        sums = np.zeros((*columns.shape[:-1], count), columns.dtype)
        if len(targets):
            starts = np.flatnonzero(np.diff(targets, prepend=targets[0] - 1))
            sums[..., targets[starts]] = np.add.reduceat(columns, starts, axis=-1)
        return sums
    import torch

    return columns.new_zeros(*columns.shape[:-1], count).index_add_(
        -1, torch.from_numpy(targets).to(columns.device), columns
    )


def like(array: Array, values: np.ndarray[Any, Any]) -> Array:
    """Return a NumPy array as an array of the kind, the dtype and the device of another one."""
    if isinstance(array, np.ndarray):
        return values.astype(array.dtype)
    import torch

    return torch.from_numpy(values).to(array.device, array.dtype)


def of_dtype(array: Array, like: Array) -> Array:
    """Return an array in the dtype of another one."""
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def widened(array: Array) -> Array:
    """Return an array in float32 if its dtype has less than that."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return array.float() if array.dtype.itemsize < 4 else array
