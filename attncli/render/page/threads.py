"""The same for every layer, in several threads where that is quicker: compressing and numpy let others run."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

LARGE = 2**17  # numbers of a layer, from which on it is

Layer = TypeVar("Layer")
Made = TypeVar("Made")


def of_each(make: Callable[[Layer], Made], layers: Sequence[Layer], size: int) -> list[Made]:
    """`make(layer)` of each, in their order. size: the numbers of a layer."""
    if size < LARGE:
        return list(map(make, layers))
    with ThreadPoolExecutor() as threads:
        return list(threads.map(make, layers))
