"""Show any report as a picture: its maps or grids of heads as panels, its captions above them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from attncli.base.errors import RequestError
from attncli.record.display import SIGNED
from attncli.report.figure.fonts import NO_BREAK
from attncli.report.figure.layout import FEW, Grid, wrap_panels
from attncli.report.figure.maps import COLOURS, HEADS, MOST_BARS, DrawnMap, panel_grid
from attncli.report.paper import Paper
from attncli.report.parts import HeadGrid, Maps, Panel, Part, TextLine, three_digits

UNBROKEN = 24  # characters of a title's piece in which no line breaks
LONGEST_PIECE = 56  # characters: longer ones are prose, which the document has


def figure_of(title: Sequence[str], parts: Sequence[Part], paper: Paper = Paper()) -> Figure:
    """Draw the maps, the grid of heads, or the first part with a picture of its own.

    Raises RequestError for a report that has none of these, and for too small a width.
    """
    shown = paper.titled(title)
    for part in parts:
        if isinstance(part, Maps):
            return maps_figure(title, part, parts, paper)
        if isinstance(part, HeadGrid):
            return heads_figure(shown, part, parts, paper)
        drawn = part.figure(shown, paper)
        if drawn is not None:
            return drawn
    named = " · ".join(title) or "this"
    raise RequestError(f"there is no picture of {named}: save it as .json or .csv; attncli heatmap draws maps")


def title_of(title: Sequence[str]) -> str:
    """Return the title of a picture: its short pieces, or its only one. Lines break between pieces, and within the
    longer ones.
    """
    short = title if len(title) == 1 else [piece for piece in title if len(piece) <= LONGEST_PIECE]
    return " · ".join(piece if len(piece) > UNBROKEN else piece.replace(" ", NO_BREAK) for piece in short)


def caption_of(parts: Sequence[Part]) -> str:
    """Return the sentences that stand above the panels."""
    return "; ".join(part.text for part in parts if isinstance(part, TextLine) and part.caption)


def maps_figure(title: Sequence[str], part: Maps, parts: Sequence[Part], paper: Paper) -> Figure:
    """Draw maps of weights in their colours, or signed maps in colours around 0.

    If maps with scales of their own are too many to have a colour bar each, captions name their largest values.
    """
    many = part.apart and len(part.all_panels) > MOST_BARS
    rows: Sequence[Sequence[Panel]] = part.panels
    headings = list(part.headings)

    def scale_of(name: str) -> str:
        """Return the name of a panel's scale, after the panel's own name unless it begins with that."""
        return ("" if not name or part.scale.startswith(name) else f"{name}, ") + part.scale

    if paper.width is not None and len(headings) > 1:  # print folds a row to its width
        named = zip(headings, rows, strict=True)
        rows = [[replace(panel, name=f"{heading}, {panel.name}") for heading, row in named for panel in row]]
        headings = []
    elif paper.width is None and len(rows) == 1 and len(rows[0]) > FEW:
        rows = wrap_panels(rows[0])
    panels = [
        [
            DrawnMap(
                f"{panel.name}, up to {three_digits(panel.largest)}"
                if many
                else "\n".join(filter(None, (panel.name, panel.about))),
                np.float32(panel.values),
                panel.name if panel.weights else scale_of(panel.name),
                panel.weights,
                0 if panel.weights else part.power,
            )
            for panel in row
        ]
        for row in rows
    ]
    alone = headings if len(headings) == 1 else []
    grid = Grid(
        part.rows.labels,
        None if part.columns.labels == part.rows.labels else part.columns.labels,
        headings=[] if alone else headings,
        title=title_of(paper.titled([*title, *alone])),
        note=caption_of(parts),
        axes=(part.rows.name, part.columns.name),
        highlighted=part.highlighted,
        vmax=part.most,
        apart=part.apart,
        paper=paper,
    )
    colours = SIGNED if part.signed else COLOURS
    return panel_grid(panels, grid, cmap=colours, scale=part.scale, signed=part.signed)


def heads_figure(title: Sequence[str], part: HeadGrid, parts: Sequence[Part], paper: Paper) -> Figure:
    """Draw layers down and heads across, a panel each. Heads without a number were not chosen."""
    caption = caption_of(parts)
    if any(np.isnan(panel.values).any() for panel in part.panels):
        caption = "; ".join(filter(None, [caption, "hidden: heads that were not chosen"]))
    grid = Grid(
        [str(layer) for layer in part.layers],
        [str(head) for head in part.heads],
        title=title_of(title),
        note=caption,
        axes=HEADS,
        vmax=part.most,
        paper=paper,
    )
    rows = [[DrawnMap(panel.heading, np.float32(panel.values), power=part.power) for panel in part.panels]]
    rows = rows if paper.width is not None else wrap_panels(rows[0])
    colours = SIGNED if part.signed else COLOURS
    return panel_grid(rows, grid, cmap=colours, scale=part.scale, signed=part.signed, root=False)
