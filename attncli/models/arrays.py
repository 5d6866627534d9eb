"""The few operations of taps that torch and NumPy write differently. Importing this does not import torch."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

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


def of_dtype(array: Array, like: Array) -> Array:
    """Return an array in the dtype of another one."""
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def widened(array: Array) -> Array:
    """Return an array in float32 if its dtype has less than that."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return array.float() if array.dtype.itemsize < 4 else array
