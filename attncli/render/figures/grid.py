"""A grid of panels over the same tokens: what they share, whatever is drawn in them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from attncli.render.figures.paper import Paper
from attncli.render.figures.texts import token_label

T = TypeVar("T")


@dataclass(frozen=True)
class Grid:
    """What is said beside and around the panels, and which of it stands out.

    tokens: the queries, and the keys too unless there are other `keys`.
    headings: words to the left of each row; title and note: above everything.
    numbers: of queries and keys in the text, where not all of it is drawn; else they are counted from 0.
    axes: what rows and columns of a panel are.
    held: the place of a query that stands out.
    vmax: the weight that gets the last, or the full, colour; None is the largest that is drawn. apart: whether it is
    each panel's own.
    paper: the picture's width and font.
    """

    tokens: Sequence[str]
    keys: Sequence[str] | None = None
    headings: Sequence[str] = ()
    title: str = ""
    note: str = ""
    numbers: tuple[Sequence[int], Sequence[int]] | None = None
    axes: tuple[str, str] = ("query", "key")
    held: int | None = None
    vmax: float | None = None
    apart: bool = False
    paper: Paper = field(default_factory=Paper)

    def labels(self) -> tuple[list[str], list[str]]:
        """The queries and the keys as they stand beside a map."""
        queries = [token_label(token) for token in self.tokens]
        return queries, queries if self.keys is None else [token_label(token) for token in self.keys]

    def ticks(self) -> tuple[list[str], list[str]]:
        """The numbers of queries and keys, for where there is no room for labels."""
        keys = self.tokens if self.keys is None else self.keys
        queries, across = self.numbers or (range(len(self.tokens)), range(len(keys)))
        return [str(number) for number in queries], [str(number) for number in across]


def wrap_panels(panels: Sequence[T]) -> list[list[T]]:
    """Panels in rows: a little wider than high, with few places left over."""

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        return 2 * (rows * columns - len(panels)) + abs(columns - 1.3 * rows)

    columns = min(range(1, len(panels) + 1), key=cost)
    return [list(panels[start : start + columns]) for start in range(0, len(panels), columns)]
