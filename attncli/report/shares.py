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
    """Blocks of rows of bars below each other. Only pictures have it.

    about: for each column of words, what its colour says that it is about. leaving: the places of columns that a narrow
    picture does without, in this order. notes: sentences above the bars. title: the title of the picture, unless it is
    printed under another one. most: the number of a whole bar; None where it is 100 %.
    """

    blocks: Sequence[BarBlock]
    about: Sequence[BarSide]
    leaving: Sequence[int]
    notes: Sequence[str]
    title: Sequence[str]
    most: float | None = None

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.shares import draw_shares

        named = self.title if paper.title is None else title
        return draw_shares(self.blocks, self.about, self.leaving, self.notes, named, paper, self.most)
