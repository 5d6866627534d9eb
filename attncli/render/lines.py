"""Maps as lines between two columns of tokens, queries left and keys right: the head view, after Vig (2019).

A weight is a line's opacity, and a little of its thickness. Of several heads in one panel each has its colour, and
lines that join the same two tokens lie beside each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.record import Floats
from attncli.render.drawing import (
    FAINT,
    INK,
    blank,
    check_vmax,
    draw_queries,
    draw_words,
    drawing,
    token_label,
    words_around,
    write,
)
from attncli.render.layout import (
    CLOSE,
    FEW,
    LABEL_GAP,
    LINE,
    SMALLEST_PRINTED,
    WORD,
    Layout,
    Sides,
    Words,
    arrange,
    cell_size,
    fit,
)
from attncli.render.paper import Paper

FAINTEST = 0.02  # opacity below which a line is not drawn: nobody would see it
FADED = 0.12  # of the opacity is left to lines of queries that are not held
MOST_LINES = 50_000  # of an SVG or PDF, at up to 200 bytes; more are drawn as pixels

# Inches.
NARROW, WIDE = 1.6, 8.0  # between the columns, of few panels
THUMBNAIL = 0.8  # the same of many, at the least
SHAPE = 0.6, 0.8  # what is aimed at between the columns, by their height: of few panels and of many
TALLEST = 9.5  # on paper

# Of the height of a token.
SPREAD = 0.65  # the lines of all heads between the same two tokens
SQUARE = 0.7  # the side of a weight's square

THICKEST = 1.6  # points
THINNEST = 0.25
NUMBERED = 3  # heads whose weights stand beside the keys as numbers; of more, as squares
VALUE = "0.00"
# Inches, for text of the standard size.
SAMPLE = 0.2  # a line in the legend
APART = 0.12  # its entries
LEGEND_GAP = 0.1  # from the panels


@dataclass(frozen=True)
class Strands:
    """The maps of one panel, `[head, query, key]`, the colour of each head, and the words above it."""

    caption: str
    weights: Floats
    colours: Sequence[str]


def line_grid(
    rows: Sequence[Sequence[Strands]],
    tokens: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    headings: Sequence[str] = (),
    title: str = "",
    note: str = "",
    legend: Sequence[tuple[str, str]] = (),
    held: int | None = None,
    vmax: float | None = None,
    measure: str = "weight",
    paper: Paper = Paper(),
) -> Figure:
    """Rows of panels over the same tokens; queries stand left of the first column, keys right of the last.

    A weight of `vmax` or more has a line of full colour; by default that is the largest drawn, of the query that is
    held if one is. The note says which it is. Lines too faint to be seen are left out.

    tokens: the queries, and the keys too unless there are other `keys`.
    headings: words to the left of each row; title and note: above everything.
    legend: words and their colours, below everything.
    held: the place of a query whose lines stand out; in a single panel their weights stand beside the keys.
    measure: what the lines' strength is, in words.
    paper: the picture's width and font.

    Raises RequestError when `vmax` is no positive number or the width is too small. A Notice names characters that
    no font on this machine has.
    """
    check_vmax(vmax)
    queries = [token_label(token) for token in tokens]
    keys = queries if keys is None else [token_label(token) for token in keys]
    strong = slice(None) if held is None else held
    top = vmax or max(float(panel.weights[:, strong].max()) for row in rows for panel in row) or 1.0
    note = "; ".join(filter(None, [note, f"full colour: {measure} {top:.2g}{' and more' if vmax else ''}"]))
    captions = [[panel.caption for panel in row] for row in rows]
    single = rows[0][0] if len(rows) == len(rows[0]) == 1 else None
    words = words_around(captions, headings, title, note, [*queries, *keys, *(text for text, _ in legend)], paper)
    with drawing(words.families):
        columns = 0 if held is None or single is None else len(single.weights)
        layout = plan(words, queries, keys, columns)
        entries = legend_rows(words, layout, [text for text, _ in legend])
        if entries:
            below = LEGEND_GAP * layout.unit + len(entries) * LINE * layout.word_size
            layout = replace(layout, height=layout.height + below)
        figure, canvas = blank(layout)
        draw_words(canvas, layout)
        draw_axes(canvas, layout)
        for row, y in zip(rows, layout.tops, strict=True):
            for panel, x in zip(row, layout.lefts, strict=False):
                draw_strands(canvas, layout, panel, x, y, top, held)
        if layout.label_size:
            draw_queries(canvas, layout, queries, held)
            weights = None if held is None or single is None else single.weights[:, held]
            draw_keys(canvas, layout, keys, weights)
            if weights is not None and single is not None:
                draw_values(canvas, layout, words, keys, weights, single.colours, top)
        draw_legend(canvas, layout, entries, dict(legend))
    return figure


# --- planning -------------------------------------------------------------------------------------------


def plan(words: Words, queries: Sequence[str], keys: Sequence[str], values: int) -> Layout:
    """Columns as high as their tokens need; lines as wide as is aimed at, or as the width that is given leaves.

    values: heads whose weights stand right of the keys.
    """
    rows, columns = len(words.captions), len(words.captions[0])
    panels = sum(len(row) for row in words.captions)
    few = panels <= FEW
    longest = max(len(queries), len(keys))
    line = LINE * words.paper.label

    def of_size(wide: float, cell: float) -> Layout:
        size = words.label_size(cell)
        scale = words.scale(columns * wide)
        word = WORD * words.paper.label * scale
        beside = [
            max(words.widest(labels, size), words.widest([name], word)) + 2 * LABEL_GAP
            for labels, name in ((queries, "query"), (keys, "key"))
        ]
        sides = Sides(
            outer=0.0,
            left=beside[0],
            right=beside[1] + (values * value_room(words, values, size, cell) if size else 0.0),
            above=LINE * word,
            below=0.0,
        )
        return arrange(words, sides, wide, cell * longest, cell, scale)

    def of_width(wide: float) -> Layout:
        most = TALLEST / rows if few else wide / SHAPE[1]
        return of_size(wide, min(line, most / longest))

    if words.paper.width is not None:
        return fit(of_width, words.paper.width, SMALLEST_PRINTED, words.paper.width)
    cell = cell_size(longest, max(rows, columns) * longest, panels, line)
    high = cell * longest
    wide = min(max(SHAPE[0] * high, NARROW), WIDE) if few else max(SHAPE[1] * high, THUMBNAIL)
    return of_size(wide, cell)


def value_room(words: Words, heads: int, size: float, cell: float) -> float:
    """Inches of one head's column of weights."""
    return words.widest([VALUE], size) + LABEL_GAP if heads <= NUMBERED else cell * SQUARE + 0.01


def legend_rows(words: Words, layout: Layout, texts: Sequence[str]) -> list[list[tuple[float, str]]]:
    """The legend's entries in rows that fit the picture, in its middle: where each begins, and its words."""
    needed = [(SAMPLE + LABEL_GAP + APART) * layout.unit + words.widest([text], layout.word_size) for text in texts]
    most = layout.width - 2 * layout.margin + APART * layout.unit
    rows: list[list[int]] = []
    for entry in range(len(texts)):
        if rows and sum(needed[one] for one in [*rows[-1], entry]) <= most:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    placed = []
    for row in rows:
        widths = [needed[entry] for entry in row]
        left = (layout.width - sum(widths) + APART * layout.unit) / 2
        placed.append([(left + sum(widths[:place]), texts[entry]) for place, entry in enumerate(row)])
    return placed


# --- drawing --------------------------------------------------------------------------------------------


def draw_axes(canvas: Axes, layout: Layout) -> None:
    """What the columns are, above the outermost two."""
    y = layout.tops[0] - CLOSE
    for x, text, side in ((layout.lefts[0] - LABEL_GAP, "query", "right"), (layout.right + LABEL_GAP, "key", "left")):
        write(canvas, x, y, text, layout.word_size, color=FAINT, ha=side, va="bottom")


def draw_strands(
    canvas: Axes, layout: Layout, panel: Strands, x: float, y: float, top: float, held: int | None
) -> None:
    """The lines of one panel, the strongest above the others, and the two columns they run between."""
    heads, queries, keys = panel.weights.shape
    opacity = np.minimum(panel.weights / top, 1.0)
    if held is not None:
        opacity = opacity * np.where(np.arange(queries) == held, 1.0, FADED)[:, None]
    order = np.flatnonzero(opacity >= FAINTEST)
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


def draw_keys(canvas: Axes, layout: Layout, labels: Sequence[str], weights: Floats | None) -> None:
    """The keys, right of the last column; those that the query which is held gives nothing are faint."""
    for number, text in enumerate(labels):
        ink = INK if weights is None or weights[:, number].max() >= 0.005 else FAINT
        for top in layout.tops:
            y = top + (number + 0.5) * layout.cell
            write(canvas, layout.right + LABEL_GAP, y, text, layout.label_size, ha="left", color=ink)


def draw_values(
    canvas: Axes,
    layout: Layout,
    words: Words,
    labels: Sequence[str],
    weights: Floats,
    colours: Sequence[str],
    top: float,
) -> None:
    """The weights `[head, key]` of one query right of the keys: a column a head, as numbers or squares."""
    room = value_room(words, len(weights), layout.label_size, layout.cell)
    left = layout.edge + words.widest([*labels, "key"], layout.label_size) + 2 * LABEL_GAP
    squares, inks = [], []
    for (head, key), weight in np.ndenumerate(weights):
        x, y = left + head * room, layout.tops[0] + (key + 0.5) * layout.cell
        if len(weights) <= NUMBERED:
            if weight >= 0.005:
                write(canvas, x, y, f"{weight:.2f}", layout.label_size, ha="left", color=colours[head])
        elif weight / top >= FAINTEST:
            side = SQUARE * layout.cell
            squares.append(Rectangle((x, y - side / 2), side, side))
            inks.append((*to_rgb(colours[head]), round(min(float(weight) / top, 1.0), 2)))
    canvas.add_collection(PatchCollection(squares, facecolors=inks, linewidths=0), autolim=False)


def draw_legend(
    canvas: Axes, layout: Layout, rows: Sequence[Sequence[tuple[float, str]]], colours: dict[str, str]
) -> None:
    """A short line of each colour and what it stands for, below everything."""
    samples, inks = [], []
    y = layout.height - layout.margin - (len(rows) - 0.5) * LINE * layout.word_size
    for row in rows:
        for x, text in row:
            end = x + SAMPLE * layout.unit
            samples.append([(x, y), (end, y)])
            inks.append(colours[text])
            write(canvas, end + LABEL_GAP * layout.unit, y, text, layout.word_size, ha="left")
        y += LINE * layout.word_size
    canvas.add_collection(LineCollection(samples, colors=inks, linewidths=2.0), autolim=False)
