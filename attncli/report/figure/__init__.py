"""Show any report as a picture: its maps or grids of heads as panels, its captions above them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from attncli.base.errors import RequestError
from attncli.record.display import SIGNED
from attncli.report.figure.fonts import NO_BREAK
from attncli.report.figure.layout import Grid, wrap_panels
from attncli.report.figure.maps import Panel as DrawnPanel
from attncli.report.figure.maps import panel_grid
from attncli.report.parts import HeadGrid, Maps, Panel, Part, Sentence

UNBROKEN = 24  # characters of a title's piece in which no line breaks


def figure_of(title: Sequence[str], parts: Sequence[Part]) -> Figure:
    """Draw the maps, the grid of heads, or the first part with a picture of its own.

    Raises RequestError for a report that has none of these.
    """
    for part in parts:
        if isinstance(part, Maps):
            return maps_figure(title, part, parts)
        if isinstance(part, HeadGrid):
            return heads_figure(title, part, parts)
        drawn = part.figure(title)
        if drawn is not None:
            return drawn
    raise RequestError(f"there is no picture of {' · '.join(title)}: save it as .json or .csv")


def title_of(title: Sequence[str]) -> str:
    """Return the title of a picture; a line breaks between its pieces, and within long ones."""
    pieces = (piece if len(piece) > UNBROKEN else piece.replace(" ", NO_BREAK) for piece in title)
    return " · ".join(pieces)


def caption_of(parts: Sequence[Part]) -> str:
    """Return the sentences that stand above the panels."""
    return "; ".join(part.text for part in parts if isinstance(part, Sentence) and part.caption)


def caption_lines(panel: Panel) -> str:
    """Return the words above a map: its name, and below it the sentence about it."""
    return "\n".join(filter(None, (panel.name, panel.about)))


def maps_figure(title: Sequence[str], part: Maps, parts: Sequence[Part]) -> Figure:
    """Draw maps of weights in their colours, or signed maps in colours around 0.

    Captions name the largest values of maps that have scales of their own; signed ones are drawn as shares of it.
    """
    panels = [
        [
            DrawnPanel(f"{panel.name}, 1 is {panel.largest:.3g}", np.float32(panel.values / (panel.largest or 1.0)))
            if part.signed and part.apart
            else DrawnPanel(
                f"{panel.name}, up to {panel.largest:.2f}" if part.apart else caption_lines(panel),
                np.float32(panel.values),
            )
            for panel in row
        ]
        for row in part.panels
    ]
    shares = part.signed and part.apart
    grid = Grid(
        part.rows.labels,
        None if part.columns.labels == part.rows.labels else part.columns.labels,
        headings=part.headings,
        title=title_of(title),
        note=caption_of(parts),
        axes=(part.rows.name, part.columns.name),
        highlighted=part.highlighted,
        vmax=1.0 if shares else part.most,
        apart=part.apart and not part.signed,
    )
    scale = "share of the largest" if shares else part.scale
    if part.signed:
        return panel_grid(panels, grid, cmap=SIGNED, scale=scale, signed=True)
    return panel_grid(panels, grid, scale=scale)


def heads_figure(title: Sequence[str], part: HeadGrid, parts: Sequence[Part]) -> Figure:
    """Draw layers down and heads across, a panel each."""
    grid = Grid(
        [str(layer) for layer in part.layers],
        [str(head) for head in part.heads],
        title=title_of(title),
        note=caption_of(parts),
        axes=("layer", "head"),
        vmax=part.most,
    )
    panels = wrap_panels([DrawnPanel(panel.heading, np.float32(panel.values)) for panel in part.panels])
    if part.signed:
        return panel_grid(panels, grid, cmap=SIGNED, scale=part.scale, signed=True)
    return panel_grid(panels, grid, scale=part.scale)
