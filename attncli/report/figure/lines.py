"""Draw maps as lines between two columns of tokens, queries left and keys right: the head view, after Vig (2019).

A weight sets a line's opacity and, a little, its thickness. If a panel has several heads, each has its own colour, and
lines that join the same two tokens are drawn side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.base.arrays import Floats
from attncli.record.display import HIDDEN, dashes, hides, largest_weight
from attncli.report.figure.drawing import (
    FAINT,
    INK,
    blank,
    draw_legend,
    draw_queries,
    draw_upright,
    draw_wording,
    drawing,
    hatched,
    legend_height,
    legend_rows,
    named_places,
    write,
)
from attncli.report.figure.layout import (
    CLOSE,
    FEW,
    LABEL_GAP,
    LINE,
    SMALLEST_PRINTED,
    TALLEST,
    Grid,
    Margins,
    PictureLayout,
    Wording,
    arrange,
    cell_size,
    fold_rows,
    largest_panels,
    shortened_note,
    tick_room,
    ticks_note,
)
from attncli.report.paper import Paper

# --- the lines of a panel -----------------------------------------------------------------------------

FAINTEST = 0.02  # opacity: fainter lines are invisible and are not drawn
FADED = 0.12  # of the opacity is left to lines of queries that are not highlighted
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
    canvas: Axes, layout: PictureLayout, panel: Strands, x: float, y: float, top: float, highlighted: int | None
) -> None:
    """Draw the lines of one panel, the strongest above the others, and the two columns that they run between."""
    heads, queries, keys = panel.weights.shape
    opacity = np.minimum(panel.weights / top, 1.0)
    if highlighted is not None:
        opacity = opacity * np.where(np.arange(queries) == highlighted, 1.0, FADED)[:, None]
    order = np.flatnonzero(opacity >= FAINTEST)  # hidden cells (NaN) are left out
    order = order[np.argsort(opacity.ravel()[order], kind="stable")]
    head, query, key = np.unravel_index(order, opacity.shape)
    shown = opacity.ravel()[order].round(2)  # smaller files

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
        linestyles=[dashes(one) for one in head],
        capstyle="butt",
        rasterized=len(order) > MOST_LINES,
        clip_on=False,
    )
    canvas.add_collection(lines, autolim=False)
    columns = [[(edge, y), (edge, y + count * layout.cell)] for edge, count in ((x, queries), (x + layout.wide, keys))]
    canvas.add_collection(LineCollection(columns, colors=FAINT, linewidths=0.6), autolim=False)


# --- panels -------------------------------------------------------------------------------------------

# Inches.
NARROW, WIDE = 1.6, 8.0  # between the columns, of few panels
THUMBNAIL = 0.8  # between the columns of many panels, at least
SHAPE = 0.6, 0.8  # the usual distance of the columns, by their height, in few panels and in many

SQUARE = 0.7  # of the height of a token: the side of a weight's square
NUMBERED = 3  # at most so many heads have weights beside the keys as numbers; with more, as squares
VALUE = "0.00"
NO_LINE = f"{HIDDEN} keys have no line"
HATCHED = f"hatched: {HIDDEN} from this query"


def line_grid(
    rows: Sequence[Sequence[Strands]], grid: Grid, *, colours: Mapping[str, str] | None = None, measure: str = "weight"
) -> Figure:
    """Draw rows of panels over the same tokens; queries stand left of the first column, keys right of the last.

    A weight of `grid.vmax` or more has a line of full colour; by default that is the largest drawn, or the largest of
    the highlighted query. The note says which. Lines too faint to be seen are left out. Lines of a highlighted query
    stand out; in a single panel their weights stand beside the keys. The note says how hidden cells look.

    colours: the legend below everything, a colour by its name. measure: the name of the lines' strength.

    Raises RequestError when the width is too small. A Notice names characters that no font on this machine has.
    """
    queries, keys = grid.labels()
    highlighted = grid.highlighted
    strong = slice(None) if highlighted is None else highlighted
    maps = [panel.weights for row in rows for panel in row]
    single = rows[0][0] if len(rows) == len(rows[0]) == 1 else None
    weights = None if highlighted is None or single is None else single.weights[:, highlighted]  # those beside the keys
    top = grid.vmax or largest_weight(*(one[:, strong] for one in maps)) or 1.0
    others = "" if highlighted is None else f", for other queries below {FAINTEST / FADED * top:.1g}"
    full = f"full colour: {measure} {top:.2g}{' and more' if grid.vmax else ''}"
    notes = [grid.note, f"{full}, no line below {FAINTEST * top:.1g}{others}"]
    if hides(*(maps if weights is None else [weights])):
        notes.append(NO_LINE if weights is None else HATCHED)
    grid = replace(grid, note="; ".join(filter(None, notes)))
    colours = colours or {}
    wording = Wording.of(grid, captions_of(rows), [*queries, *keys, *colours])
    with drawing(wording.families):
        values = 0 if weights is None else len(weights)
        if grid.paper.width is not None:
            rows = fold_rows(rows, lambda some: lay_out(replace(wording, captions=captions_of(some)), grid, values))
            wording = replace(wording, captions=Wording.of(grid, captions_of(rows), []).captions)
        layout = lay_out(wording, grid, values)
        notes = [shortened_note(layout, wording), ticks_note(layout, *grid.ticks())]
        if any(notes):
            wording = replace(wording, note="; ".join(filter(None, [wording.note, *notes])))
            layout = lay_out(wording, grid, values)
        entries = legend_rows(wording, layout, list(colours))
        if entries:
            layout = replace(layout, height=layout.height + legend_height(layout, len(entries)))
        figure, canvas = blank(layout.width, layout.height)
        draw_wording(canvas, layout)
        above = layout.tops[0] - CLOSE  # the columns are named above the outermost two
        write(
            canvas, layout.lefts[0] - LABEL_GAP, above, "query", layout.note_size, color=FAINT, ha="right", va="bottom"
        )
        write(canvas, layout.right + LABEL_GAP, above, "key", layout.note_size, color=FAINT, ha="left", va="bottom")
        for row, y in zip(rows, layout.tops, strict=True):
            for panel, x in zip(row, layout.lefts, strict=False):
                draw_strands(canvas, layout, panel, x, y, top, highlighted)
        if layout.label_size:
            draw_queries(canvas, layout, queries, highlighted)
            draw_keys(canvas, layout, keys, weights)
            if weights is not None and single is not None:
                draw_values(canvas, layout, wording, keys, weights, single.colours, top)
        else:
            for y in layout.tops:
                draw_upright(canvas, layout, grid.ticks()[0], layout.lefts[0], y)
                draw_upright(canvas, layout, grid.ticks()[1], layout.right, y, right=True)
        draw_legend(canvas, layout, entries, colours)
    return figure


# --- planning -------------------------------------------------------------------------------------------


def captions_of(rows: Sequence[Sequence[Strands]]) -> list[list[str]]:
    return [[panel.caption for panel in row] for row in rows]


def lay_out(wording: Wording, grid: Grid, values: int) -> PictureLayout:
    """Lay out columns as high as their tokens need, with lines of the usual width, or as wide as the paper allows.

    values: heads whose weights stand right of the keys.
    """
    queries, keys = grid.labels()
    rows, columns = len(wording.captions), len(wording.captions[0])
    panels = sum(len(row) for row in wording.captions)
    few = panels <= FEW
    longest = max(len(queries), len(keys))
    line = LINE * wording.paper.label

    def of_size(wide: float, cell: float, paper: Paper) -> PictureLayout:
        words = replace(wording, paper=paper)
        size, _ = words.label_size(cell)
        scale = words.scale(columns * wide)
        note = paper.note * scale
        tick_size = min(note, words.caption_size(scale, wide))
        beside = [
            max(
                words.widest(labels, size) + LABEL_GAP if size else tick_room(words, numbers, tick_size, cell),
                words.widest([name], note) + LABEL_GAP,
            )
            + LABEL_GAP
            for labels, numbers, name in zip((queries, keys), grid.ticks(), ("query", "key"), strict=True)
        ]
        sides = Margins(
            outer=0.0,
            left=beside[0],
            right=beside[1] + (values * value_room(words, values, size, cell) if size else 0.0),
            above=LINE * note,
            below=0.0,
        )
        return arrange(words, sides, wide, cell * longest, cell, scale)

    def of_width(wide: float, paper: Paper) -> PictureLayout:
        most = TALLEST / rows if few else wide / SHAPE[1]
        return of_size(wide, min(LINE * paper.label, most / longest), paper)

    if wording.paper.width is not None:
        return largest_panels(of_width, wording.paper, SMALLEST_PRINTED, wording.paper.width)
    cell = cell_size(longest, max(rows, columns) * longest, panels, line)
    high = cell * longest
    wide = min(max(SHAPE[0] * high, NARROW), WIDE) if few else max(SHAPE[1] * high, THUMBNAIL)
    return of_size(wide, cell, wording.paper)


def value_room(wording: Wording, heads: int, size: float, cell: float) -> float:
    """Return the inches of one head's column of weights."""
    return wording.widest([VALUE], size) + LABEL_GAP if heads <= NUMBERED else cell * SQUARE + 0.01


# --- drawing --------------------------------------------------------------------------------------------


def draw_keys(canvas: Axes, layout: PictureLayout, labels: Sequence[str], weights: Floats | None) -> None:
    """Draw the keys right of the last column; keys to which the highlighted query gives nothing are faint."""
    for number in named_places(layout, len(labels)):
        ink = INK if weights is None or weights[:, number].max() >= 0.005 else FAINT
        for top in layout.tops:
            y = top + (number + 0.5) * layout.cell
            write(canvas, layout.right + LABEL_GAP, y, labels[number], layout.label_size, ha="left", color=ink)


def draw_values(
    canvas: Axes,
    layout: PictureLayout,
    wording: Wording,
    labels: Sequence[str],
    weights: Floats,
    colours: Sequence[str],
    top: float,
) -> None:
    """Draw the weights `[head, key]` of one query right of the keys: a column per head, numbers, squares or hatched."""
    room = value_room(wording, len(weights), layout.label_size, layout.cell)
    left = layout.edge + wording.widest([*labels, "key"], layout.label_size) + 2 * LABEL_GAP
    squares, inks = [], []
    across, side = len(weights) * room - LABEL_GAP, SQUARE * layout.cell
    for key in np.flatnonzero(np.isnan(weights).all(axis=0)):
        canvas.add_patch(hatched(left, layout.tops[0] + (key + 0.5) * layout.cell - side / 2, across, side))
    for (head, key), weight in np.ndenumerate(weights):
        x, y = left + head * room, layout.tops[0] + (key + 0.5) * layout.cell
        if len(weights) <= NUMBERED:
            if weight >= 0.005:
                write(canvas, x, y, f"{weight:.2f}", layout.label_size, ha="left", color=colours[head])
        elif weight / top >= FAINTEST:
            squares.append(Rectangle((x, y - side / 2), side, side))
            inks.append((*to_rgb(colours[head]), round(min(float(weight) / top, 1.0), 2)))
    canvas.add_collection(PatchCollection(squares, facecolors=inks, linewidths=0), autolim=False)
