"""The colour bar, right of the maps."""

from typing import Any

from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attncli.render.figures.drawing import FAINT, INK
from attncli.render.figures.layout import Layout

ROOTS = (0, 0.01, 0.1, 0.25, 0.5, 1)  # of the full colour: what is marked where colours go by the square root

# Inches.
BAR_GAP, BAR_WIDTH, BAR_TEXT = 0.25, 0.16, 0.75  # for text of 10 points
SHORTEST_BAR, LONGEST_BAR = 1.2, 4.0


def draw_bar(figure: Figure, layout: Layout, colours: ScalarMappable, scale: str, more: bool) -> None:
    """The colour bar, right of the maps; it ends in a point if `more` weight was drawn than it reaches to."""
    unit = layout.unit
    place = layout.edge + BAR_GAP * unit, layout.tops[0], BAR_WIDTH * unit, bar_height(layout)
    ticks = (
        [share * (colours.norm.vmax or 1) for share in ROOTS] if isinstance(colours.norm, PowerNorm) else MaxNLocator(5)
    )
    made = bar_at(figure, place, colours, scale, layout.note_size, ticks=ticks, extend="max" if more else "neither")
    made.ax.tick_params(length=3 * unit)


def bar_at(
    figure: Figure,
    place: tuple[float, float, float, float],
    colours: ScalarMappable,
    name: str,
    size: float,
    **how: Any,
) -> Colorbar:
    """A colour bar with its name in letters of this size. place: its left, top, width and height, in inches."""
    (left, top, across, down), (wide, high) = place, figure.get_size_inches()
    axes = figure.add_axes((left / wide, 1 - (top + down) / high, across / wide, down / high))
    bar = figure.colorbar(colours, cax=axes, **how)
    bar.set_label(name, size=size, color=FAINT)
    bar.ax.tick_params(labelsize=size, colors=INK, width=0.6, length=2)
    bar.outline.set(linewidth=0.6, edgecolor=FAINT)
    return bar


def bar_height(layout: Layout) -> float:
    """As high as the maps, within limits."""
    return min(max(layout.bottom - layout.tops[0], SHORTEST_BAR * layout.unit), LONGEST_BAR * layout.unit)
