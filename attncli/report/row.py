"""A row of a map as bars: a row per key, and a column of bars per step from scores to weights and values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.report.parts import BarStep, Part, RowKey

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.report.paper import Paper


@dataclass(frozen=True)
class RowBars(Part):
    """The bars of a row, shown only in pictures. query: the place of the query among the keys, if it is one of them."""

    keys: Sequence[RowKey]
    steps: Sequence[BarStep]
    query: int | None

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.row import draw_row

        return draw_row(self.keys, self.steps, self.query, title, paper)
