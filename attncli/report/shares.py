"""Shares as bars, beside the numbers of tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attncli.report.parts import BarBlock, Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.report.paper import Paper

BarSide = Literal["bar", "mark", "faint", ""]


@dataclass(frozen=True)
class ShareBars(Part):
    """Blocks of rows of bars, one below another, shown only in pictures.

    about: the part of a row that each column of words is about, shown by its colour. drop_order: the places of columns
    that a narrow picture drops, in this order. notes: sentences above the bars. title: the title of the picture, unless
    it is printed under another one. most: the number of a whole bar; None where it is 100 %.
    """

    blocks: Sequence[BarBlock]
    about: Sequence[BarSide]
    drop_order: Sequence[int]
    notes: Sequence[str]
    title: Sequence[str]
    most: float | None = None

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.shares import draw_shares

        shown = paper.titled(self.title)
        return draw_shares(self.blocks, self.about, self.drop_order, self.notes, shown, paper, self.most)
