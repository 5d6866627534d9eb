"""The lines of one panel: as opaque as their weights are large, those of several heads beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from attncli.base.arrays import Floats
from attncli.render.figures.drawing import FAINT
from attncli.render.figures.layout import Layout

FAINTEST = 0.02  # opacity below which a line is not drawn: nobody would see it
FADED = 0.12  # of the opacity is left to lines of queries that are not held
MOST_LINES = 50_000  # of an SVG or PDF, at up to 200 bytes; more are drawn as pixels
SPREAD = 0.65  # of the height of a token: the lines of all heads between the same two tokens
THINNEST, THICKEST = 0.25, 1.6  # points


@dataclass(frozen=True)
class Strands:
    """The maps of one panel as they are drawn, `[head, query, key]`, each head's colour, and the words above it."""

    caption: str
    weights: Floats
    colours: Sequence[str]


def draw_strands(
    canvas: Axes, layout: Layout, panel: Strands, x: float, y: float, top: float, held: int | None
) -> None:
    """The lines of one panel, the strongest above the others, and the two columns they run between."""
    heads, queries, keys = panel.weights.shape
    opacity = np.minimum(panel.weights / top, 1.0)
    if held is not None:
        opacity = opacity * np.where(np.arange(queries) == held, 1.0, FADED)[:, None]
    order = np.flatnonzero(opacity >= FAINTEST)  # which is not so of what is hidden (NaN)
    order = order[np.argsort(opacity.ravel()[order], kind="stable")]
    head, query, key = np.unravel_index(order, opacity.shape)
    shown = opacity.ravel()[order].round(2)  # nobody can tell hundredths, and files are smaller

    beside = ((np.arange(heads) + 0.5) / heads - 0.5) * SPREAD * layout.cell
    starts = y + (query + 0.5) * layout.cell + beside[head]
    ends = y + (key + 0.5) * layout.cell + beside[head]
    sides = np.broadcast_to([x, x + layout.wide], (len(order), 2))
    segments = np.stack([sides, np.stack([starts, ends], axis=1)], axis=2)
    colours = np.array([to_rgb(colour) for colour in panel.colours])[head]
    points = layout.cell * 72
    thickest = max(THINNEST, min(THICKEST, 0.2 * points, SPREAD * points / heads))
    lines = LineCollection(
        list(segments),
        colors=np.column_stack([colours, shown]),
        linewidths=(thickest * (0.4 + 0.6 * shown)).round(2),
        capstyle="butt",
        rasterized=len(order) > MOST_LINES,
        clip_on=False,
    )
    canvas.add_collection(lines, autolim=False)
    columns = [[(edge, y), (edge, y + count * layout.cell)] for edge, count in ((x, queries), (x + layout.wide, keys))]
    canvas.add_collection(LineCollection(columns, colors=FAINT, linewidths=0.6), autolim=False)
