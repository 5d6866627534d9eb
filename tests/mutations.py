"""Documents and arrays with one thing changed, as whoever edits a file changes it, or a disk that fails."""

import copy
from typing import Any

import numpy as np
from hypothesis import strategies as st

VALUES = (
    None, True, False, -5, 0, 1, 2, 99, 10**30, 0.5, -0.25, 1e300, float("inf"), float("nan"), "", "7", "padding",
    "\x1b[2J", "\ud800", "x" * 6000, [], [1], [[1]], {}, {"a": 1},
)  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document, and to its first three where there is a list of many."""
    inner = document.items() if isinstance(document, dict) else enumerate(document[:3])
    found = []
    for name, value in inner if isinstance(document, dict | list) else ():
        found += [(*path, name), *(places(value, (*path, name)) if isinstance(value, dict | list) else ())]
    return found


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """A document in which one value is another, is missing, stands twice, or has another beside it."""
    changed = copy.deepcopy(document)
    *way, last = draw(st.sampled_from(places(document)))
    parent = changed
    for name in way:
        parent = parent[name]
    match draw(st.sampled_from(["replace", "replace", "replace", "remove", "more", "turn"])):
        case "replace":
            parent[last] = draw(st.sampled_from(VALUES))
        case "remove":
            del parent[last]
        case "more" if isinstance(parent, dict):
            parent["more"] = parent[last]
        case "more":
            parent.append(parent[last])
        case "turn" if isinstance(parent[last], list):
            parent[last].reverse()
    return changed


NUMBERS = {"f": (np.nan, np.inf, -1, 5, 0.5), "i": (-1, 7), "b": (True, False)}
DTYPES = ("f2", ">f4", "f8", "i8", "u1", "?", "U5")


@st.composite
def mutated_array(draw: st.DrawFn, array: np.ndarray) -> np.ndarray:
    """An array of another dtype or shape, turned round, or with another number in it."""
    changed = array.copy()
    how = draw(st.sampled_from(["number", "number", "dtype", "flat", "deep", "turn"]))
    if how == "number" and array.size and array.dtype.kind in NUMBERS:
        changed.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(NUMBERS[array.dtype.kind]))
        return changed
    if how == "dtype":
        return changed.astype(draw(st.sampled_from(DTYPES))) if array.dtype.kind in NUMBERS else np.arange(array.size)
    if how in ("flat", "deep"):
        return changed.ravel() if how == "flat" else changed[None]
    return changed[::-1] if changed.ndim else changed
