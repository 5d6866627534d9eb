"""Show any report as a picture: its maps or grids of heads as panels, its captions above them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from attncli.base.errors import RequestError
from attncli.record.display import SIGNED
from attncli.report.figure.fonts import NO_BREAK
from attncli.report.figure.layout import Grid, wrap_panels
from attncli.report.figure.maps import COLOURS, MOST_BARS, DrawnMap, panel_grid
from attncli.report.paper import Paper
from attncli.report.parts import HeadGrid, Maps, Part, TextLine, three_digits

UNBROKEN = 24  # characters of a title's piece in which no line breaks
LONGEST_PIECE = 56  # characters: longer ones are prose, which the document has


def figure_of(title: Sequence[str], parts: Sequence[Part], paper: Paper = Paper()) -> Figure:
    """Draw the maps, the grid of heads, or the first part with a picture of its own.

    Raises RequestError for a report that has none of these, and for too small a width.
    """
    title = title if paper.title is None else [paper.title]
    for part in parts:
        if isinstance(part, Maps):
            return maps_figure(title, part, parts, paper)
        if isinstance(part, HeadGrid):
            return heads_figure(title, part, parts, paper)
        drawn = part.figure(title, paper)
        if drawn is not None:
            return drawn
    raise RequestError(f"there is no picture of {' · '.join(title)}: save it as .json or .csv")


def title_of(title: Sequence[str]) -> str:
    """Return the title of a picture: its short pieces, or the one that there is. Lines break between pieces, and
    within the longer ones.
    """
    short = title if len(title) == 1 else [piece for piece in title if len(piece) <= LONGEST_PIECE]
    return " · ".join(piece if len(piece) > UNBROKEN else piece.replace(" ", NO_BREAK) for piece in short)


def caption_of(parts: Sequence[Part]) -> str:
    """Return the sentences that stand above the panels."""
    return "; ".join(part.text for part in parts if isinstance(part, TextLine) and part.caption)


def maps_figure(title: Sequence[str], part: Maps, parts: Sequence[Part], paper: Paper) -> Figure:
    """Draw maps of weights in their colours, or signed maps in colours around 0.

    Captions name the largest values of maps that have scales of their own and are too many for a colour bar each.
    """
    many = part.apart and len(part.all_panels) > MOST_BARS
    panels = [
        [
            DrawnMap(
                f"{panel.name}, up to {three_digits(panel.largest)}"
                if many
                else "\n".join(filter(None, (panel.name, panel.about))),
                np.float32(panel.values),
                panel.name if panel.weights else f"{panel.name}, {part.scale}".removeprefix(", "),
                panel.weights,
            )
            for panel in row
        ]
        for row in part.panels
    ]
    alone = part.headings if len(part.headings) == 1 else []
    grid = Grid(
        part.rows.labels,
        None if part.columns.labels == part.rows.labels else part.columns.labels,
        headings=[] if alone else part.headings,
        title=title_of([*title, *alone]),
        note=caption_of(parts),
        axes=(part.rows.name, part.columns.name),
        highlighted=part.highlighted,
        vmax=part.most,
        apart=part.apart,
        paper=paper,
    )
    return panel_grid(panels, grid, cmap=SIGNED if part.signed else COLOURS, scale=part.scale, signed=part.signed)


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
        axes=("layer", "head"),
        vmax=part.most,
        paper=paper,
    )
    rows = [[DrawnMap(panel.heading, np.float32(panel.values)) for panel in part.panels]]
    rows = rows if paper.width is not None else wrap_panels(rows[0])
    return panel_grid(rows, grid, cmap=SIGNED if part.signed else COLOURS, scale=part.scale, signed=part.signed)
