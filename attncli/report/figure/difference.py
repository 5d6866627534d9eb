"""The picture of two records: how much weight moved in every head, and the maps of those that differ most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attncli.analysis.difference import ChangedCell, Difference
from attncli.base.arrays import Floats
from attncli.record.display import SIGNED, drawn_map, hides
from attncli.report.figure import fonts
from attncli.report.figure.drawing import (
    FAINT,
    INK,
    bar_at,
    blank,
    draw_heading,
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

SHOWN = 3  # heads whose maps are drawn
MOVED = ScalarMappable(Normalize(0, 1), COLOURS)
DARK = 0.4  # from this much moved weight on, the number is white
TABLE = "How much weight moved in every head (0 to 1)"
LONGEST_SIDE = 80  # characters of the description of A or B
MAPS = "Heads where most moved; frames: the cells that differ most"

# Inches, for text of the usual size.
HEAD_WIDE, HEAD_HIGH = 0.42, 0.26  # a head's square
SMALLEST_MAP, LARGEST_MAP, TOKEN = 2.2, 7.0, 0.17  # the side of a map, and of one token in it
BAR_WIDTH, BAR_ROOM = 0.13, 0.85
ROOM_FOR_TICKS, LONGEST_BARS = 0.6, 2.5  # of a colour bar, and of both together
SMALLEST_CELL, SMALLEST_SQUARE = 0.01, 0.1  # of a token and of a head, where the width is given


class Picture:
    """The picture of a difference, and the places of its parts, in inches from the upper left corner; sizes in points.

    cells: those with frames. heading, note: the lines above everything. size: of all other text. caption, line: the
    heights of a map's name and of a heading. square: the width and height of a head's square. squares, maps: the tops
    of the squares and of the first row of maps, below their headings. row: the distance from one row of maps to the
    next. left: the left edge of squares and maps. wide, high: of a map. cell: of a token in it. label_size, label_step:
    as in `PictureLayout`.
    """

    def __init__(
        self,
        found: Difference,
        cells: Sequence[ChangedCell],
        title: Sequence[str],
        queries: Sequence[str],
        keys: Sequence[str],
        paper: Paper,
    ) -> None:
        """Make maps as large as their tokens need, or as the width leaves room for."""
        self.found, self.cells, self.paper = found, cells, paper
        self.queries, self.keys = ([token_label(text) for text in texts] for texts in (queries, keys))
        self.shown = [(layer, head) for layer, head in found.heads()[:SHOWN] if found.of(layer, head) > 0]
        heading = " · ".join(cut(clean(piece), LONGEST_SIDE) for piece in title)
        self.families = fonts.families([*self.queries, *self.keys, heading], paper.font)
        layers, heads = found.moved.shape
        size, margin, unit = paper.note, paper.margin, paper.label / STANDARD
        words = Wording([], [], "", "", tuple(self.families), paper)
        longest = max(len(queries), len(keys))
        self.size, self.caption, self.line = size, LINE * size + LABEL_GAP, LINE * size + 2 * LABEL_GAP
        bars = BAR_WIDTH + BAR_ROOM * unit
        named = words.widest(["layer 00"], size) + LABEL_GAP

        def left_of(cell: float) -> float:
            label_size, _ = words.label_size(cell)
            return margin + max(words.widest(self.queries, label_size) + LABEL_GAP if label_size else 0.0, named)

        def width_of(cell: float) -> float:
            return left_of(cell) + 3 * cell * len(keys) + 2 * GAP + bars + margin

        if paper.width is None:
            self.cell = min(max(SMALLEST_MAP, TOKEN * longest), LARGEST_MAP) / longest
            squares_wide = HEAD_WIDE
            self.width = max(width_of(self.cell), left_of(self.cell) + heads * HEAD_WIDE + margin)
        else:
            self.width = paper.width
            least = left_of(0.0001) + 3 * SMALLEST_CELL * longest + 2 * GAP + bars + margin
            needed = max(least, margin + named + heads * SMALLEST_SQUARE * unit + margin)
            if needed > self.width:
                raise too_narrow(paper, larger(paper, needed))
            self.cell = bar_length(width_of, paper, SMALLEST_CELL, 0.0) or SMALLEST_CELL
            squares_wide = min(HEAD_WIDE, (self.width - left_of(self.cell) - margin) / heads)
        self.label_size, self.label_step = words.label_size(self.cell)
        self.wide, self.high = self.cell * len(keys), self.cell * len(queries)
        self.left = left_of(self.cell)
        notes = []
        if self.label_step > 1:
            notes.append(step_note(self.label_step))
        elif not self.label_size:
            notes.append(f"no room for {len(queries)} x {len(keys)} tokens")
        if squares_wide < words.widest(["0.00"], size):
            notes.append("no room for the numbers of heads")
        self.heading = wrap_line(heading, paper.heading, self.width - 2 * margin, self.families)
        self.note = wrap_line("; ".join(notes), size, self.width - 2 * margin, self.families)
        self.square = (squares_wide, HEAD_HIGH * unit)
        above = LINE * (paper.heading * len(self.heading) + size * len(self.note))
        self.squares = margin + above + GAP + self.line + LINE * size
        self.row = self.caption + self.high + GAP
        self.maps = self.squares + layers * self.square[1] + GAP + (self.line if self.shown else 0.0)
        below = words.widest(self.keys, self.label_size) if self.label_size and self.shown else 0.0
        self.height = self.maps + len(self.shown) * self.row + below + margin

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """Return the upper left corner of a map."""
        return self.left + column * (self.wide + GAP), self.maps + row * self.row + self.caption

    def draw(self) -> Figure:
        """Draw a square per head with how much weight moved, and maps A, B and B - A of the heads where most did."""
        found, paper = self.found, self.paper
        weights, changes = scales(found)
        with drawing(self.families):
            figure, canvas = blank(self.width, self.height)
            draw_heading(canvas, paper, self.heading, self.note)
            heads_top = self.squares - LINE * self.size - self.line
            draw_lines(canvas, paper.margin, heads_top, [TABLE], self.size, INK)
            self.draw_heads(canvas)
            hidden = False
            for row, (layer, head) in enumerate(self.shown):
                first, second = drawn_map(found.first, layer, head), drawn_map(found.second, layer, head)
                neither = np.isnan(first) & np.isnan(second)
                change = np.where(neither, np.nan, np.nan_to_num(second) - np.nan_to_num(first))
                hidden = hidden or hides(first, second)
                framed = [cell for cell in self.cells if (cell.layer, cell.head) == (layer, head)]
                self.draw_map(canvas, (row, 0), f"A {layer}.{head}", first, weights, framed)
                self.draw_map(canvas, (row, 1), f"B {layer}.{head}", second, weights, framed)
                self.draw_map(canvas, (row, 2), "B - A", change, changes, framed)
            if self.shown:
                draw_lines(canvas, paper.margin, self.maps - self.line, [MAPS], self.size, INK)
                self.draw_tokens(canvas)
                bars = {found.first.measure: weights, "B - A": changes}
                left, top = self.corner(0, 3)
                tall = (min(len(self.shown) * self.row - self.caption, LONGEST_BARS) - 2 * GAP) / len(bars)
                for place, (name, colours) in enumerate(bars.items()):
                    how: dict[str, Any] = {"ticks": MaxNLocator(4)}
                    if tall < ROOM_FOR_TICKS:
                        how = {"ticks": [*colours.get_clim()], "format": lambda end, _: f"{end:.2g}"}
                    place_and_size = left, top + place * (tall + 2 * GAP), BAR_WIDTH, tall
                    bar_at(figure, place_and_size, colours, name, self.size, **how)
            if hidden:
                x, y = self.corner(0, 3)
                draw_hidden_sample(canvas, x, y - self.caption, BAR_WIDTH, self.size)
        return figure

    def draw_heads(self, canvas: Axes) -> None:
        """Draw a square for each head, from no colour at 0 to full colour at 1, with its number."""
        found, size, (wide, high) = self.found, self.size, self.square
        line = self.squares - LINE * size / 2
        write(canvas, self.left - LABEL_GAP, line, "head", size, ha="right", color=FAINT)
        room = max(fonts.widths(["0.00"], size, [fonts.DEFAULT]))
        for place in tick_places(len(found.first.heads), wide, room / 3) or [0]:
            write(canvas, self.left + (place + 0.5) * wide, line, f"{found.first.heads[place]}", size, color=FAINT)
        for row, layer in enumerate(found.first.layers):
            y = self.squares + row * high
            write(canvas, self.left - LABEL_GAP, y + high / 2, f"layer {layer}", size, ha="right")
            for head in found.first.heads_of(layer):
                column = found.first.heads.index(head)
                moved = found.moved[row, column]
                x = self.left + column * wide
                shade = MOVED.to_rgba(moved)
                canvas.add_patch(Rectangle((x, y), wide, high, facecolor=shade, edgecolor="white", linewidth=0.6))
                if wide >= room:
                    ink = INK if moved < DARK else "white"
                    write(canvas, x + wide / 2, y + high / 2, in_cell(moved), size, color=ink)

    def draw_map(
        self,
        canvas: Axes,
        place: tuple[int, int],
        caption: str,
        matrix: Floats,
        colours: ScalarMappable,
        framed: Sequence[ChangedCell],
    ) -> None:
        """Draw one map with its caption and a frame, and frames around the cells that differ most."""
        x, y = self.corner(*place)
        canvas.add_patch(hatched(x, y, self.wide, self.high))
        write(canvas, x, y - LABEL_GAP, caption, self.size, ha="left", va="bottom")
        sides = (x, x + self.wide, y + self.high, y)
        canvas.imshow(colours.to_rgba(matrix), extent=sides, aspect="auto", interpolation="nearest")
        canvas.add_patch(Rectangle((x, y), self.wide, self.high, fill=False, edgecolor=FAINT, linewidth=0.6))
        for cell in framed:
            corner = x + cell.key * self.cell, y + cell.query * self.cell
            canvas.add_patch(Rectangle(corner, self.cell, self.cell, fill=False, edgecolor=INK, linewidth=0.9))

    def draw_tokens(self, canvas: Axes) -> None:
        """Write the queries left of every row of maps, and the keys, turned, below the last one."""
        if not self.label_size:
            return
        rows, size = len(self.shown), self.label_size
        for row in range(rows):
            x, y = self.corner(row, 0)
            for number in range(0, len(self.queries), self.label_step):
                middle = y + (number + 0.5) * self.cell
                write(canvas, x - LABEL_GAP, middle, self.queries[number], size, ha="right")
        for column in range(3):
            x, y = self.corner(rows - 1, column)
            for number in range(0, len(self.keys), self.label_step):
                middle, top = x + (number + 0.5) * self.cell, y + self.high + LABEL_GAP
                write(canvas, middle, top, self.keys[number], size, va="top", rotation=90)


def scales(found: Difference) -> tuple[ScalarMappable, ScalarMappable]:
    """Return the colours of both sides' weights, and those of their differences, where 0 is white."""
    largest = max(float(found.first.weights.max()), float(found.second.weights.max())) or 1.0
    most = float(np.abs(found.second.weights - found.first.weights).max()) or 1.0
    return ScalarMappable(Normalize(0, largest), COLOURS), ScalarMappable(Normalize(-most, most), SIGNED)
