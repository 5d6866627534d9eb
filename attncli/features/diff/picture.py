"""The picture of two records: how much weight moved in every head, and the maps of those that differ most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attncli.analysis.difference import Difference
from attncli.base.arrays import Floats
from attncli.record.display import SIGNED, drawn_map, hides
from attncli.report.figure import fonts
from attncli.report.figure.drawing import (
    FAINT,
    INK,
    bar_at,
    blank,
    draw_hidden_sample,
    draw_lines,
    drawing,
    hatched,
    write,
)
from attncli.report.figure.fonts import clean, cut, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, Wording, bar_length, step_note, tick_places
from attncli.report.figure.maps import COLOURS
from attncli.report.paper import STANDARD, Paper, larger, too_narrow
from attncli.report.parts import in_cell

if TYPE_CHECKING:
    from attncli.features.diff import Cell

SHOWN = 3  # heads whose maps are drawn
MOVED = ScalarMappable(Normalize(0, 1), COLOURS)
DARK = 0.4  # how much moved, from which on its number is white
TABLE = "How much weight moved in every head (0 to 1)"
LONGEST_SIDE = 80  # characters of what A or B is
MAPS = "Where most did; in frames: the cells that differ most"

# Inches, for text of the usual size.
HEAD_WIDE, HEAD_HIGH = 0.42, 0.26  # a head's square
SMALLEST_MAP, LARGEST_MAP, TOKEN = 2.2, 7.0, 0.17  # the side of a map, and what a token of it should have
BAR_WIDTH, BAR_ROOM = 0.13, 0.85
ROOM_FOR_TICKS, LONGEST_BARS = 0.6, 2.5  # of a colour bar, and of both together
SMALLEST_CELL, SMALLEST_SQUARE = 0.01, 0.1  # of a token and of a head, where the width is given


@dataclass(frozen=True)
class Plan:
    """The places of all parts, in inches from the upper left corner; sizes of text in points.

    title, note: the lines above everything. size: of all other words. caption, heading: the heights of a map's name and
    of a line above a part. square: the sides of a head's. squares: the top of these, and maps: that of the first row of
    maps, each below its heading; row: from one row to the next. left: where both begin. wide, high: a map's sides;
    cell: of a token; label_size, label_step: as in `Layout`. bars: from the maps' right side, the room of colour bars.
    """

    paper: Paper
    width: float
    height: float
    title: list[str]
    note: list[str]
    size: float
    caption: float
    heading: float
    square: tuple[float, float]
    left: float
    squares: float
    maps: float
    row: float
    wide: float
    high: float
    cell: float
    label_size: float
    label_step: int

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """Return the upper left corner of a map."""
        return self.left + column * (self.wide + GAP), self.maps + row * self.row + self.caption


def difference_figure(
    found: Difference,
    cells: "Sequence[Cell]",
    title: Sequence[str],
    queries: Sequence[str],
    keys: Sequence[str],
    paper: Paper,
) -> Figure:
    """Draw a square a head with how much weight moved and, for the heads where most did, map A, map B and B - A.

    cells: those that have frames. A Notice names characters that no font on this machine has. Raises RequestError for
    too small a width.
    """
    queries, keys = ([token_label(text) for text in texts] for texts in (queries, keys))
    shown = [(layer, head) for layer, head in found.heads()[:SHOWN] if found.of(layer, head) > 0]
    heading = " · ".join(cut(clean(piece), LONGEST_SIDE) for piece in title)
    families = fonts.families([*queries, *keys, heading], paper.font)
    plan = make_plan(found.moved.shape, len(shown), queries, keys, heading, paper, families)
    weights, changes = scales(found)
    with drawing(families):
        figure, canvas = blank(plan.width, plan.height)
        draw_lines(canvas, paper.margin, paper.margin, plan.title, paper.heading, INK)
        note_top = paper.margin + LINE * paper.heading * len(plan.title)
        draw_lines(canvas, paper.margin, note_top, plan.note, plan.size, FAINT)
        heads_top = plan.squares - LINE * plan.size - plan.heading
        draw_lines(canvas, paper.margin, heads_top, [TABLE], plan.size, INK)
        draw_heads(canvas, found, plan)
        hidden = False
        for row, (layer, head) in enumerate(shown):
            first, second = drawn_map(found.first, layer, head), drawn_map(found.second, layer, head)
            neither = np.isnan(first) & np.isnan(second)
            change = np.where(neither, np.nan, np.nan_to_num(second) - np.nan_to_num(first))
            hidden = hidden or hides(first, second)
            framed = [cell for cell in cells if (cell.layer, cell.head) == (layer, head)]
            draw_map(canvas, plan, (row, 0), f"A {layer}.{head}", first, weights, framed)
            draw_map(canvas, plan, (row, 1), f"B {layer}.{head}", second, weights, framed)
            draw_map(canvas, plan, (row, 2), "B - A", change, changes, framed)
        if shown:
            draw_lines(canvas, paper.margin, plan.maps - plan.heading, [MAPS], plan.size, INK)
            draw_tokens(canvas, plan, queries, keys, len(shown))
            draw_bars(figure, plan, len(shown), {found.first.measure: weights, "B - A": changes})
        if hidden:
            x, y = plan.corner(0, 3)
            draw_hidden_sample(canvas, x, y - plan.caption, BAR_WIDTH, plan.size)
    return figure


def make_plan(
    heads: tuple[int, ...],
    rows: int,
    queries: Sequence[str],
    keys: Sequence[str],
    heading: str,
    paper: Paper,
    families: Sequence[str],
) -> Plan:
    """Make maps as large as their tokens need, or as the width leaves room for.

    heads: numbers of layers and heads; rows: of maps.
    """
    size, margin, unit = paper.note, paper.margin, paper.label / STANDARD
    words = Wording([], [], "", "", tuple(families), paper)
    longest = max(len(queries), len(keys))
    caption, line = LINE * size + LABEL_GAP, LINE * size + 2 * LABEL_GAP
    bars = BAR_WIDTH + BAR_ROOM * unit
    named = words.widest(["layer 00"], size) + LABEL_GAP

    def left_of(cell: float) -> float:
        label_size, _ = words.label_size(cell)
        return margin + max(words.widest(queries, label_size) + LABEL_GAP if label_size else 0.0, named)

    def width_of(cell: float) -> float:
        return left_of(cell) + 3 * cell * len(keys) + 2 * GAP + bars + margin

    if paper.width is None:
        cell = min(max(SMALLEST_MAP, TOKEN * longest), LARGEST_MAP) / longest
        squares_wide = HEAD_WIDE
        width = max(width_of(cell), left_of(cell) + heads[1] * HEAD_WIDE + margin)
    else:
        width = paper.width
        least = left_of(0.0001) + 3 * SMALLEST_CELL * longest + 2 * GAP + bars + margin
        needed = max(least, margin + named + heads[1] * SMALLEST_SQUARE * unit + margin)
        if needed > width:
            raise too_narrow(paper, larger(paper, needed))
        cell = bar_length(width_of, paper, SMALLEST_CELL, 0.0) or SMALLEST_CELL
        squares_wide = min(HEAD_WIDE, (width - left_of(cell) - margin) / heads[1])
    label_size, label_step = words.label_size(cell)
    wide, high = cell * len(keys), cell * len(queries)
    below = words.widest(keys, label_size) if label_size else 0.0
    left = left_of(cell)
    title = wrap_line(heading, paper.heading, width - 2 * margin, families)
    notes = []
    if label_step > 1:
        notes.append(step_note(label_step))
    elif not label_size:
        notes.append(f"no room for {len(queries)} x {len(keys)} tokens")
    if squares_wide < words.widest(["0.00"], size):
        notes.append("no room for the numbers of heads")
    note = wrap_line("; ".join(notes), size, width - 2 * margin, families)
    square = (squares_wide, HEAD_HIGH * unit)
    squares = margin + LINE * (paper.heading * len(title) + size * len(note)) + GAP + line + LINE * size
    row = caption + high + GAP
    maps = squares + heads[0] * square[1] + GAP + (line if rows else 0.0)
    height = maps + rows * row + (below if rows else 0.0) + margin
    return Plan(
        paper, width, height, title, note, size, caption, line, square, left, squares, maps, row, wide, high, cell,
        label_size, label_step,
    )  # fmt: skip


def scales(found: Difference) -> tuple[ScalarMappable, ScalarMappable]:
    """Return the colours of both sides' weights, and those of their differences, where 0 is white."""
    largest = max(float(found.first.weights.max()), float(found.second.weights.max())) or 1.0
    most = float(np.abs(found.second.weights - found.first.weights).max()) or 1.0
    return ScalarMappable(Normalize(0, largest), COLOURS), ScalarMappable(Normalize(-most, most), SIGNED)


def draw_heads(canvas: Axes, found: Difference, plan: Plan) -> None:
    """Draw a square for each head, from no colour at 0 to full colour at 1, with its number."""
    size, (wide, high) = plan.size, plan.square
    line = plan.squares - LINE * size / 2
    write(canvas, plan.left - LABEL_GAP, line, "head", size, ha="right", color=FAINT)
    room = max(fonts.widths(["0.00"], size, [fonts.DEFAULT]))
    for place in tick_places(len(found.first.heads), wide, room / 3) or [0]:
        write(canvas, plan.left + (place + 0.5) * wide, line, f"{found.first.heads[place]}", size, color=FAINT)
    for row, layer in enumerate(found.first.layers):
        y = plan.squares + row * high
        write(canvas, plan.left - LABEL_GAP, y + high / 2, f"layer {layer}", size, ha="right")
        for column, moved in enumerate(found.moved[row].tolist()):
            x = plan.left + column * wide
            shade = MOVED.to_rgba(moved)
            canvas.add_patch(Rectangle((x, y), wide, high, facecolor=shade, edgecolor="white", linewidth=0.6))
            if wide >= room:
                ink = INK if moved < DARK else "white"
                write(canvas, x + wide / 2, y + high / 2, in_cell(moved), size, color=ink)


def draw_map(
    canvas: Axes,
    plan: Plan,
    place: tuple[int, int],
    caption: str,
    matrix: Floats,
    colours: ScalarMappable,
    framed: "Sequence[Cell]",
) -> None:
    """Draw one map with its caption and a frame, and frames around the cells that differ most."""
    x, y = plan.corner(*place)
    canvas.add_patch(hatched(x, y, plan.wide, plan.high))
    write(canvas, x, y - LABEL_GAP, caption, plan.size, ha="left", va="bottom")
    sides = (x, x + plan.wide, y + plan.high, y)
    canvas.imshow(colours.to_rgba(matrix), extent=sides, aspect="auto", interpolation="nearest")
    canvas.add_patch(Rectangle((x, y), plan.wide, plan.high, fill=False, edgecolor=FAINT, linewidth=0.6))
    for cell in framed:
        corner = x + cell.key * plan.cell, y + cell.query * plan.cell
        canvas.add_patch(Rectangle(corner, plan.cell, plan.cell, fill=False, edgecolor=INK, linewidth=0.9))


def draw_tokens(canvas: Axes, plan: Plan, queries: Sequence[str], keys: Sequence[str], rows: int) -> None:
    """Write the queries left of every row of maps, and the keys, turned, below the last one."""
    if not plan.label_size:
        return
    for row in range(rows):
        x, y = plan.corner(row, 0)
        for number in range(0, len(queries), plan.label_step):
            middle = y + (number + 0.5) * plan.cell
            write(canvas, x - LABEL_GAP, middle, queries[number], plan.label_size, ha="right")
    for column in range(3):
        x, y = plan.corner(rows - 1, column)
        for number in range(0, len(keys), plan.label_step):
            middle, top = x + (number + 0.5) * plan.cell, y + plan.high + LABEL_GAP
            write(canvas, middle, top, keys[number], plan.label_size, va="top", rotation=90)


def draw_bars(figure: Figure, plan: Plan, rows: int, bars: Mapping[str, ScalarMappable]) -> None:
    """Draw colour bars below each other, right of the maps."""
    left, top = plan.corner(0, 3)
    room = min(rows * plan.row - plan.caption, LONGEST_BARS)
    tall = (room - 2 * GAP) / len(bars)
    for place, (name, colours) in enumerate(bars.items()):
        ticks = MaxNLocator(4) if tall >= ROOM_FOR_TICKS else [*colours.get_clim()]
        corner = left, top + place * (tall + 2 * GAP)
        bar_at(figure, (*corner, BAR_WIDTH, tall), colours, name, plan.size, ticks=ticks)
