"""Parts that show a record: its heads in the terminal, its maps in a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.record import AttentionRecord
from attncli.record.grouping import LONG
from attncli.report.parts import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from attncli.analysis.edges import Edge, Usual
    from attncli.report.canvas import Canvas
    from attncli.report.figure.record import Appearance, What
    from attncli.report.paper import Paper

ENDLESS = 10_000  # columns of a large map in a pipe


@dataclass(frozen=True)
class _Heads(Part):
    """Heads of a record, below a title and the model's prediction."""

    record: AttentionRecord
    title: Sequence[str]

    def below(self, canvas: "Canvas") -> "Canvas":
        """Return the part of a terminal below the title and the prediction."""
        from attncli.record.display import describe_prediction
        from attncli.report.terminal import fold

        if canvas.height is None:
            return canvas
        above = [" · ".join(self.title), *describe_prediction(self.record)]
        return replace(canvas, height=canvas.height - sum(len(list(fold(line, canvas.width))) for line in above))


@dataclass(frozen=True)
class Overview(_Heads):
    """All heads as glyphs, and those with strong edges.

    found: the strong edges of each such head. over: the texts of the usual weights.
    """

    found: "Sequence[Sequence[Edge]]"
    over: "Usual"

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        """Draw the heads; a terminal ends with a command that looks at the first head."""
        from attncli.analysis.edges import telling_head
        from attncli.report.heads import first_look

        layer, head = telling_head(self.record, self.found)
        command = None
        if canvas.height is not None and canvas.typed is not None:
            command = canvas.typed("run", {"layer": layer, "head": head})
        return [*first_look(self.record, self.found, self.over, self.below(canvas), command)]


@dataclass(frozen=True)
class SmallMaps(_Heads):
    """Heads as small maps with their strongest keys."""

    top_k: int

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.heads import small_maps

        return [*small_maps(self.record, canvas, self.top_k), Text()]


@dataclass(frozen=True)
class HeadMap(_Heads):
    """One head as a large map with the strongest keys of every query; a pipe gets all numbers of at most LONG keys."""

    top_k: int

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        from rich.text import Text

        from attncli.report.heads import one_head

        [layer], [head] = self.record.layers, self.record.heads
        endless = canvas.height is None and len(self.record.keys) <= LONG
        room = replace(canvas, width=ENDLESS) if endless else self.below(canvas)
        return [*one_head(self.record, layer, head, room, self.top_k), Text()]


@dataclass(frozen=True)
class RecordPicture(Part):
    """The picture of a record; what, look: the part that is drawn, and its appearance, by default all maps."""

    record: AttentionRecord
    what: "What | None" = None
    look: "Appearance | None" = None

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure":
        from attncli.report.figure.record import Appearance, What, heatmap

        return heatmap(self.record, self.what or What(), self.look or Appearance(), paper)
