"""The atlas of a corpus: the statistics of all heads as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.base import choices
from attncli.report.parts import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attncli.corpus.statistics import Statistics
    from attncli.report.paper import Paper

OPEN_ENDED = ("entropy", "distance")  # the statistics that are not shares, and may exceed 1


@dataclass(frozen=True)
class Atlas(Part):
    """Entropy by layer, shares of the weight by layer, and all heads, coloured by one statistic. It is shown only in
    pictures.
    """

    statistics: "Statistics"
    by: choices.Figure

    @property
    def top(self) -> float:
        """The value with the last colour."""
        if self.by == "entropy":
            return max(float(self.statistics.entropy_limit.max()), 1e-9)
        return float(self.statistics.figure(self.by).max()) or 1.0 if self.by in OPEN_ENDED else 1.0

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.atlas import draw_atlas

        return draw_atlas(self.statistics, self.by, self.top, title, paper)
