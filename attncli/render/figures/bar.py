"""The colour bar, right of the maps."""

from matplotlib.cm import ScalarMappable
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
    unit, height = layout.unit, bar_height(layout)
    place = figure.add_axes(
        (
            (layout.edge + BAR_GAP * unit) / layout.width,
            1 - (layout.tops[0] + height) / layout.height,
            BAR_WIDTH * unit / layout.width,
            height / layout.height,
        )
    )
    places = (
        [share * (colours.norm.vmax or 1) for share in ROOTS] if isinstance(colours.norm, PowerNorm) else MaxNLocator(5)
    )
    bar = figure.colorbar(colours, cax=place, ticks=places, extend="max" if more else "neither")
    bar.set_label(scale, size=layout.note_size, color=FAINT)
    bar.ax.tick_params(labelsize=layout.note_size, colors=INK, width=0.6, length=3 * unit)
    bar.outline.set(linewidth=0.6, edgecolor=FAINT)


def bar_height(layout: Layout) -> float:
    """As high as the maps, within limits."""
    return min(max(layout.bottom - layout.tops[0], SHORTEST_BAR * layout.unit), LONGEST_BAR * layout.unit)
