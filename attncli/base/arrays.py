"""Types of NumPy arrays, functions for arrays of NumPy or torch, and results with a one-line repr.

Functions state the shapes of arrays in their docstrings.
"""

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from attncli.base.printable import printable, quoted

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def largest_first(numbers: Doubles) -> list[tuple[int, ...]]:
    """Return the indices of numbers by descending absolute value; equal ones keep their order."""
    order = np.argsort(-np.abs(numbers), axis=None, kind="stable")
    return list(zip(*(places.tolist() for places in np.unravel_index(order, numbers.shape)), strict=True))


def finite(number: float | None) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON does not support."""
    return number if number is not None and math.isfinite(number) else None


def seal_of(about: str, arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a text and arrays, to recognize a damaged or exchanged file."""
    digest = hashlib.sha256(about.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# --- arrays of NumPy or torch ----------------------------------------------------------------------------

Array: TypeAlias = Any  # a torch.Tensor or a NumPy array


def library(array: Array) -> Any:
    """Return an array's library, numpy or torch. Call only functions that both have under the same name."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def empty(shape: Sequence[int], like: Array) -> Array:
    """Return an uninitialized array of this shape, with the library, dtype and device of another."""
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def cast(array: Array, like: Array) -> Array:
    """Return an array in the dtype of another; the array itself if it already has that dtype."""
    return array.astype(like.dtype, copy=False) if isinstance(array, np.ndarray) else array.to(like.dtype)


def on_cpu(array: Array) -> bool:
    """Return True if an array is in the memory of the processor."""
    return isinstance(array, np.ndarray) or array.device.type == "cpu"


def widened(array: Array) -> Array:
    """Return an array in float32 if its dtype has less precision."""
    return array.float() if array.dtype.itemsize < 4 else array


def as_numpy(array: Any) -> npt.NDArray[Any]:
    """Return an array or torch tensor as a NumPy array; half precision becomes float32. torch is not imported."""
    if isinstance(array, np.ndarray):
        return array
    halves = array.dtype.is_floating_point and array.dtype.itemsize < 4
    numbers: npt.NDArray[Any] = (array.float() if halves else array).cpu().numpy()
    return numbers


def as_floats(array: Array) -> Floats:
    """Return an array of any library as a NumPy array in float32."""
    return as_numpy(array).astype(np.float32, copy=False)


# --- results in one line -----------------------------------------------------------------------------

FEW = 4  # longer lists are printed as their length


class Brief:
    """A dataclass whose repr is one line. Declare it with `repr=False`, or the dataclass writes its own."""

    def __repr__(self) -> str:
        """Curve(by='effect', heads=[72 entries], removed=[9 entries], effects=float64 [1, 9])"""
        parts = [f"{field.name}={brief(getattr(self, field.name))}" for field in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"


def brief(value: Any) -> str:
    """Write an array as its dtype and shape, and long lists as their length."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        entries = [f"{key!r}: {brief(one)}" for key, one in value.items()]
        return f"{{{listed(entries)}}}"
    if isinstance(value, list):
        return f"[{listed([brief(one) for one in value])}]"
    return printable(repr(value))


def listed(entries: list[str]) -> str:
    return ", ".join(entries) if len(entries) <= FEW else f"{len(entries)} entries"


def titled(thing: object, of: str, *facts: str) -> str:
    """<Cosines of minilm: 3 texts>"""
    return printable(f"<{type(thing).__name__} of {of}: {', '.join(fact for fact in facts if fact)}>")
