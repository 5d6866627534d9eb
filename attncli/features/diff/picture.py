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
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, MARGIN, READABLE
from attncli.report.figure.maps import COLOURS

if TYPE_CHECKING:
    from attncli.features.diff import Cell

SHOWN = 3  # heads whose maps are drawn
MOVED = ScalarMappable(Normalize(0, 1), COLOURS)
DARK = 0.4  # how much moved, from which on its number is white
HEAD, NOTE, LABEL = 10.0, 9.0, 9.0  # points
TABLE = "How much weight moved in every head"
MAPS = "Where most did: rows are queries, columns are keys; in frames: the cells that differ most"

# Inches.
HEAD_WIDE, HEAD_HIGH = 0.42, 0.26  # a head's square
SMALLEST_MAP, LARGEST_MAP, TOKEN = 2.2, 7.0, 0.17  # the side of a map, and what a token of it should have
CAPTION = LINE * LABEL + LABEL_GAP
HEADING = LINE * HEAD + 2 * LABEL_GAP
BAR_WIDTH, BAR_ROOM = 0.13, 0.75
ROOM_FOR_TICKS = 0.6  # of a colour bar


@dataclass(frozen=True)
class Plan:
    """The places of all parts, in inches from the upper left corner; sizes of text in points.

    lines: the two, and notes: what the numbers mean, above everything. squares: the top of the heads', and maps: that
    of the first row of maps, each below its heading; row: from one row to the next. left: where both begin. wide, high:
    a map's sides; cell: of a token; label_size: 0 where there is no room for tokens.
    """

    width: float
    height: float
    lines: list[str]
    notes: list[str]
    left: float
    squares: float
    maps: float
    row: float
    wide: float
    high: float
    cell: float
    label_size: float

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """Return the upper left corner of a map."""
        return self.left + column * (self.wide + GAP), self.maps + row * self.row + CAPTION


def difference_figure(
    found: Difference,
    cells: "Sequence[Cell]",
    sides: Sequence[str],
    meaning: str,
    queries: Sequence[str],
    keys: Sequence[str],
) -> Figure:
    """Draw a square a head with how much weight moved and, for the heads where most did, map A, map B and B - A.

    cells: those that have frames. sides: the sentences about A and B; meaning: the sentence about the numbers.
    A Notice names characters that no font on this machine has.
    """
    queries, keys = ([token_label(text) for text in texts] for texts in (queries, keys))
    shown = [(layer, head) for layer, head in found.heads()[:SHOWN] if found.of(layer, head) > 0]
    about_both = [clean(side) for side in sides]
    families = fonts.families([*queries, *keys, *about_both, meaning])
    plan = make_plan(found.moved.shape, len(shown), queries, keys, about_both, meaning, families)
    weights, changes = scales(found)
    with drawing(families):
        figure, canvas = blank(plan.width, plan.height)
        draw_lines(canvas, MARGIN, plan.lines, NOTE, INK)
        draw_lines(canvas, MARGIN + LINE * NOTE * len(plan.lines), plan.notes, NOTE, FAINT)
        draw_lines(canvas, plan.squares - LINE * LABEL - HEADING, [TABLE], HEAD, INK)
        draw_heads(canvas, found, plan)
        tall = found.moved.shape[0] * HEAD_HIGH
        draw_bar(figure, (plan.left + found.moved.shape[1] * HEAD_WIDE + GAP, plan.squares), tall, "moved", MOVED)
        hidden = False
        for row, (layer, head) in enumerate(shown):
            first, second = drawn_map(found.first, layer, head), drawn_map(found.second, layer, head)
            neither = np.isnan(first) & np.isnan(second)
            change = np.where(neither, np.nan, np.nan_to_num(second) - np.nan_to_num(first))
            hidden = hidden or hides(first, second)
            framed = [cell for cell in cells if (cell.layer, cell.head) == (layer, head)]
            name = f"A, head {layer}.{head}, moved {found.of(layer, head):.2f}"
            draw_map(canvas, plan, (row, 0), name, first, weights, framed)
            draw_map(canvas, plan, (row, 1), "B", second, weights, framed)
            draw_map(canvas, plan, (row, 2), "B - A", change, changes, framed)
        if shown:
            draw_lines(canvas, plan.maps - HEADING, [MAPS], HEAD, INK)
            draw_tokens(canvas, plan, queries, keys, len(shown))
            draw_bars(figure, plan, {found.first.measure: weights, "B - A": changes})
        if hidden:
            x, y = plan.corner(0, 3)
            draw_hidden_sample(canvas, x, y + SMALLEST_MAP + LABEL_GAP, BAR_WIDTH, NOTE - 1)
    return figure


def make_plan(
    heads: tuple[int, ...],
    rows: int,
    queries: Sequence[str],
    keys: Sequence[str],
    about_both: Sequence[str],
    meaning: str,
    families: Sequence[str],
) -> Plan:
    """Make maps as large as their tokens need, within limits. heads: numbers of layers and heads; rows: of maps."""
    longest = max(len(queries), len(keys))
    cell = min(max(SMALLEST_MAP, TOKEN * longest), LARGEST_MAP) / longest
    wide, high = cell * len(keys), cell * len(queries)
    size = min(LABEL, cell * 72 / 1.2) if cell >= READABLE else 0.0
    beside, below = (max(fonts.widths(labels, size, families)) if size else 0.0 for labels in (queries, keys))
    left = MARGIN + max(beside, *fonts.widths(["layer 00"], LABEL, families)) + LABEL_GAP
    width = left + max(3 * wide + 2 * GAP, heads[1] * HEAD_WIDE) + BAR_ROOM + MARGIN
    lines = [line for text in about_both for line in wrap_line(text, NOTE, width - 2 * MARGIN, families)]
    notes = wrap_line(meaning, NOTE, width - 2 * MARGIN, families)
    squares = MARGIN + LINE * NOTE * (len(lines) + len(notes)) + GAP + HEADING + LINE * LABEL
    row = CAPTION + high + GAP
    maps = squares + heads[0] * HEAD_HIGH + GAP + (HEADING if rows else 0.0)
    height = maps + rows * row + (below if rows else 0.0) + MARGIN
    return Plan(width, height, lines, notes, left, squares, maps, row, wide, high, cell, size)


def scales(found: Difference) -> tuple[ScalarMappable, ScalarMappable]:
    """Return the colours of both sides' weights, and those of their differences, where 0 is white."""
    largest = max(float(found.first.weights.max()), float(found.second.weights.max())) or 1.0
    most = float(np.abs(found.second.weights - found.first.weights).max()) or 1.0
    return ScalarMappable(Normalize(0, largest), COLOURS), ScalarMappable(Normalize(-most, most), SIGNED)


def draw_heads(canvas: Axes, found: Difference, plan: Plan) -> None:
    """Draw a square for each head, from no colour at 0 to full colour at 1, with its number."""
    write(canvas, plan.left - LABEL_GAP, plan.squares - LINE * LABEL / 2, "head", LABEL, ha="right", color=FAINT)
    for column, head in enumerate(found.first.heads):
        x = plan.left + (column + 0.5) * HEAD_WIDE
        write(canvas, x, plan.squares - LINE * LABEL / 2, f"{head}", LABEL, color=FAINT)
    for row, layer in enumerate(found.first.layers):
        y = plan.squares + row * HEAD_HIGH
        write(canvas, plan.left - LABEL_GAP, y + HEAD_HIGH / 2, f"layer {layer}", LABEL, ha="right")
        for column, moved in enumerate(found.moved[row].tolist()):
            x = plan.left + column * HEAD_WIDE
            shade = MOVED.to_rgba(moved)
            canvas.add_patch(Rectangle((x, y), HEAD_WIDE, HEAD_HIGH, facecolor=shade, edgecolor="white", linewidth=0.6))
            ink = INK if moved < DARK else "white"
            write(canvas, x + HEAD_WIDE / 2, y + HEAD_HIGH / 2, f"{moved:.2f}", LABEL, color=ink)


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
    write(canvas, x, y - LABEL_GAP, caption, LABEL, ha="left", va="bottom")
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
        for number, label in enumerate(queries):
            middle = y + (number + 0.5) * plan.cell
            write(canvas, x - LABEL_GAP, middle, label, plan.label_size, ha="right")
    for column in range(3):
        x, y = plan.corner(rows - 1, column)
        for number, label in enumerate(keys):
            middle, top = x + (number + 0.5) * plan.cell, y + plan.high + LABEL_GAP
            write(canvas, middle, top, label, plan.label_size, va="top", rotation=90)


def draw_bars(figure: Figure, plan: Plan, bars: Mapping[str, ScalarMappable]) -> None:
    """Draw colour bars below each other, right of the first row of maps."""
    left, top = plan.corner(0, 3)
    tall = (SMALLEST_MAP - 2 * GAP) / len(bars)
    for place, (name, colours) in enumerate(bars.items()):
        draw_bar(figure, (left, top + place * (tall + 2 * GAP)), tall, name, colours)


def draw_bar(figure: Figure, corner: tuple[float, float], tall: float, name: str, colours: ScalarMappable) -> None:
    """Draw a colour bar with its name, down from a corner."""
    ticks = MaxNLocator(4) if tall >= ROOM_FOR_TICKS else [*colours.get_clim()]
    bar_at(figure, (*corner, BAR_WIDTH, tall), colours, name, NOTE - 1, ticks=ticks)
