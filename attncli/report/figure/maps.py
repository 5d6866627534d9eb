"""Draw maps as matrices of colour: queries down, keys across, one colour scale for all of them."""

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.base.arrays import Floats
from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.record.display import WEIGHTS, WEIGHTS_NAME, hides, largest_weight, pool, pool_signed
from attncli.report.figure import fonts
from attncli.report.figure.drawing import (
    BAR_GAP,
    BAR_TEXT,
    BAR_WIDTH,
    FAINT,
    INK,
    RULES,
    SHORTEST_BAR,
    blank,
    dark_ink,
    draw_across,
    draw_bars,
    draw_hidden_sample,
    draw_queries,
    draw_upright,
    draw_wording,
    drawing,
    hatched,
    named_places,
    write,
)
from attncli.report.figure.layout import (
    FEW,
    FOLDED,
    LABEL_GAP,
    LABEL_LINE,
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
    most_cells,
    pooling_note,
    shortened_note,
    tick_height,
    tick_room,
    ticks_note,
)
from attncli.report.paper import STANDARD, Paper
from attncli.report.parts import in_powers, power_of_cells, write_cell

# --- colours ------------------------------------------------------------------------------------------


def registered() -> str:
    """Register the colours of weights with matplotlib, and return their name; with "_r" they are for dark pages."""
    on_paper = LinearSegmentedColormap.from_list(WEIGHTS_NAME, WEIGHTS)
    for one in (on_paper, on_paper.reversed()):
        matplotlib.colormaps.register(one, force=True)
    return WEIGHTS_NAME


COLOURS = registered()


def colour_map(name: str) -> Colormap:
    """Return matplotlib's colour map of this name. Raises RequestError, with similar names, when there is none."""
    if name not in matplotlib.colormaps:
        near = difflib.get_close_matches(name, matplotlib.colormaps, n=3) or [COLOURS, "viridis", "Blues"]
        raise RequestError(f"no colour map {quoted(name)}: matplotlib has {', '.join(near)} and others")
    return matplotlib.colormaps[name]


# --- panels -------------------------------------------------------------------------------------------


ROUNDING = 1e-6  # of a weight in float32, and of a size

# Inches.
LARGE_CELL, GRID_CELL = 0.55, 0.3  # the largest cells, of few panels and of many
LEVEL_CELL, LEVEL_GRID = 0.85, 9.0  # the same where cells grow so that key labels need not be turned
NUMBERED = 0.36  # the smallest cell with its weight in it, where one can zoom in
PORTRAIT = 1.5  # of the width of a printed picture: the height that is aimed at
LINED = 0.12  # the smallest cell with a line around it

NUMBER = 0.9  # the size of a weight in its cell, of a label's
POINTS = 24  # of a weight in a cell of an inch: "0.00" then fills four fifths of it
MOST_BARS = 3  # colour bars
SMALL_BAR = 0.01  # the largest number of a colour bar: smaller ones have no room for their zeros
HEADS = "layer", "head"  # the axes of a grid of heads
MANY = 100  # tokens: in longer texts most weights are so small that a linear scale shows them white
BY_ROOT = "colours go by the square root of the value"


@dataclass(frozen=True)
class DrawnMap:
    """A map `[query, key]` as it is drawn (`attncli.record.display`), and the words above it, in one or more lines.

    scale: the name of its values, where each map has a scale of its own. weights: True for a map of weights among
    signed maps. power: the power of ten that multiplies the numbers in its cells.
    """

    caption: str
    matrix: Floats
    scale: str = "attention weight"
    weights: bool = False
    power: int = 0

    def write(self, value: float) -> str:
        """Write a number in a cell."""
        return write_cell(value, self.power)


def panel_grid(
    rows: Sequence[Sequence[DrawnMap]],
    grid: Grid,
    *,
    cmap: str = COLOURS,
    scale: str = "attention weight",
    signed: bool = False,
    root: bool | None = None,
) -> Figure:
    """Draw rows of maps over the same tokens, with one colour bar, up to `grid.vmax` or to each map's largest.

    A row may be shorter than the first. If the width is given, rows that have no room in it are folded.
    Tokens stand left of the first column and below the last row, as many as can be read, and numbers in cells that have
    room for them. Up to MOST_BARS maps with scales of their own have a bar each. Hidden cells are hatched, and the
    legend under the colour bar says so. A map with more cells than a print can show is drawn with fewer, each the
    largest of the cells it replaces. The row of a highlighted query has a frame.

    cmap: matplotlib's name of the colours. scale: the name of the values. signed: colours go from -`grid.vmax` to
    `grid.vmax`. root: colours go by the square root of a weight; by default for more than MANY tokens without a
    `grid.vmax`.

    Raises RequestError when the colour map is unknown or the width is too small. A Notice names characters that no
    font on this machine has.
    """
    colours = colour_map(cmap)
    queries, keys = grid.labels()
    panels = [panel for row in rows for panel in row]
    maps = [panel.matrix for panel in panels]
    largest = largest_weight(*map(np.abs, maps))
    top = grid.vmax or largest or 1.0
    if root is None:
        root = not signed and grid.vmax is None and max(len(queries), len(keys)) > MANY
    if root:
        grid = replace(grid, note="; ".join(filter(None, [grid.note, BY_ROOT])))

    def shades(panel: DrawnMap, power: int = 0) -> ScalarMappable:
        most = 10.0**power * ((largest_weight(np.abs(panel.matrix)) or 1.0) if grid.apart else top)
        if root:
            return ScalarMappable(PowerNorm(0.5, 0, most), colours)
        around = signed and not panel.weights
        return ScalarMappable(Normalize(-most if around else 0, most), COLOURS if signed and not around else colours)

    def bar(panel: DrawnMap, name: str) -> tuple[ScalarMappable, str]:
        power = power_of_cells([np.array([cast(float, shades(panel).norm.vmax)])], SMALL_BAR)
        return shades(panel, power), name + factor_of(power)

    bars = [bar(panel, panel.scale) for panel in panels] if grid.apart else [bar(panels[0], scale)]
    if len(bars) > MOST_BARS:
        bars = [(ScalarMappable(Normalize(0, 1), colours), f"{scale} / the map's largest")]
    hidden, names = hides(*maps), [name for _, name in bars]
    wording = Wording.of(grid, captions_of(rows), [*queries, *keys, *names])
    with drawing(wording.families):
        if grid.paper.width is not None and not grid.headings:
            if len(rows) == 1:
                rows = fold(rows[0], wording, grid, hidden, names)
            else:
                rows = fold_rows(
                    rows, lambda some: lay_out(replace(wording, captions=captions_of(some)), grid, hidden, names)
                )
            wording = replace(wording, captions=Wording.of(grid, captions_of(rows), []).captions)
        layout = lay_out(wording, grid, hidden, names)
        powers = {panel.power for panel in panels if panel.power and number_size(panel, layout, grid.paper)}
        notes = [
            *(f"numbers in cells{factor_of(power)}" for power in powers),
            pooling_note(layout, len(queries), len(keys)),
            shortened_note(layout, wording),
            ticks_note(layout, *grid.ticks(), wording.widest(grid.ticks()[1], layout.tick_size)),
        ]
        if grid.axes == HEADS and layout.label_size:  # numbers of which some are left out
            notes.pop()
        if any(notes):
            wording = replace(wording, note="; ".join(filter(None, [wording.note, *notes])))
            layout = lay_out(wording, grid, hidden, names)
        room = label_room(wording, keys, layout.label_size)
        turned = is_turned(wording, keys, layout.label_size, layout.cell * layout.label_step)
        under = tick_height(wording, grid.ticks()[1], layout.tick_size, layout.cell)
        below = under if not layout.label_size else room if turned else LINE * layout.label_size
        figure, canvas = blank(layout.width, layout.height)
        draw_wording(canvas, layout)
        draw_axes(canvas, layout, wording, grid.axes, below)
        draw_maps(canvas, layout, grid, rows, shades)
        if grid.highlighted is not None:
            draw_highlighted(canvas, layout, rows, grid.highlighted)
        if layout.label_size:
            draw_queries(canvas, layout, queries, grid.highlighted)
            draw_keys(canvas, layout, rows, keys, turned)
        else:
            for y in layout.tops:
                draw_upright(canvas, layout, grid.ticks()[0], layout.lefts[0], y)
            for x, y in lowest_maps(layout, rows).items():
                draw_across(canvas, layout, wording, grid.ticks()[1], x, y + layout.high)
        below = draw_bars(figure, layout, wording, bars, not grid.apart and largest > top * (1 + ROUNDING))
        if hidden:
            left, side = layout.edge + BAR_GAP * layout.unit, BAR_WIDTH * layout.unit
            draw_hidden_sample(canvas, left, below + LINE * layout.note_size / 2, side, layout.note_size)
    return figure


# --- planning -------------------------------------------------------------------------------------------


def captions_of(rows: Sequence[Sequence[DrawnMap]]) -> list[list[str]]:
    return [[panel.caption for panel in row] for row in rows]


def fold(
    row: Sequence[DrawnMap], wording: Wording, grid: Grid, hidden: bool, bars: Sequence[str]
) -> list[Sequence[DrawnMap]]:
    """Return the panels in the longest rows in which every token has its label, if such a picture fits on a page; else
    in those of a short picture in which most have one, of a picture of a page in which some have one, with full rows if
    possible, or in the longest that have room.

    Raises RequestError where the width has no room for one panel.
    """
    found = list[tuple[int, list[Sequence[DrawnMap]]]]()
    longest: list[Sequence[DrawnMap]] | None = None
    tall = list[tuple[bool, list[Sequence[DrawnMap]]]]()  # with whether the last row is shorter
    for columns in range(len(row), 0, -1):
        rows = [row[start : start + columns] for start in range(0, len(row), columns)]
        try:
            layout = lay_out(replace(wording, captions=captions_of(rows)), grid, hidden, bars)
        except RequestError:
            if columns == 1 and longest is None:
                raise
            continue
        longest = longest or rows
        step = layout.label_step if layout.label_size else 0
        if step == 1 and layout.height <= TALLEST:
            return rows
        if step and layout.height <= PORTRAIT * layout.width:
            found.append((step, rows))
        elif step and layout.height <= TALLEST:
            tall.append((len(row) % columns > 0, rows))
    assert longest is not None
    return min(found or tall, key=itemgetter(0), default=(0, longest))[1]


def lay_out(wording: Wording, grid: Grid, hidden: bool, bars: Sequence[str]) -> PictureLayout:
    """Lay out cells of the usual size, or, if the width is given, as large as there is room for.

    hidden: True for a line under the colour bars that shows a hidden cell. bars: their names.
    """
    queries, keys = grid.labels()
    rows, columns = len(wording.captions), len(wording.captions[0])
    panels = sum(len(row) for row in wording.captions)
    longest, across = max(len(queries), len(keys)), max(rows * len(queries), columns * len(keys))

    def of_cell(cell: float, paper: Paper) -> PictureLayout:
        words = replace(wording, paper=paper)
        size, step = words.label_size(cell)
        wide, high = cell * len(keys), max(cell * len(queries), 0 if size else LINED)
        scale = words.scale(cell * across)
        unit = scale * paper.label / STANDARD
        note_size = paper.note * scale
        note, tick_size = LINE * note_size, min(note_size, words.caption_size(scale, wide))
        numbers = grid.ticks()
        below = label_room(words, keys, size) if size else tick_height(words, numbers[1], tick_size, cell)
        shortest = (SHORTEST_BAR - (BAR_GAP if len(bars) > 1 else 0)) * unit * FOLDED
        lines = math.ceil(words.widest(bars, note_size) / shortest)
        level = size and not is_turned(words, keys, size, cell * step)
        sides = Margins(
            outer=note,
            left=label_room(words, queries, size) + LABEL_GAP
            if size
            else tick_room(words, numbers[0], tick_size, cell),
            right=(BAR_GAP + BAR_WIDTH + BAR_TEXT) * unit + note * (lines - 1),
            above=0.0,
            below=(LINE * size if level else below) + LABEL_GAP + note,
        )
        lowest = SHORTEST_BAR * unit * len(bars) + note * (2 if hidden else 0.5)
        return arrange(words, sides, wide, high, cell, scale, max(lowest, words.widest(grid.axes[:1], note_size)))

    largest = LARGE_CELL if panels <= FEW else GRID_CELL
    if wording.paper.width is not None:
        tall = max(
            PORTRAIT * wording.paper.width / (rows * len(queries)), (1 + ROUNDING) * wording.paper.smallest * LABEL_LINE
        )
        return largest_panels(of_cell, wording.paper, SMALLEST_PRINTED / longest, min(tall, LARGE_CELL))
    cell = cell_size(longest, across, panels, largest)
    level = label_room(wording, keys, STANDARD)
    if cell < level <= LEVEL_CELL and across * level <= LEVEL_GRID:
        cell = level
    return of_cell(cell, wording.paper)


def label_room(wording: Wording, labels: Sequence[str], size: float) -> float:
    """Return the inches that the widest label takes along the text; keys whose labels have no room are turned."""
    return (wording.widest(labels, STANDARD) + 2 * LABEL_GAP) * size / STANDARD


def is_turned(wording: Wording, keys: Sequence[str], size: float, room: float) -> bool:
    """Return True if the labels of keys have no room beside each other and are turned."""
    return wording.widest(keys, size) + LABEL_GAP / 2 > room


def panels_of(layout: PictureLayout, rows: Sequence[Sequence[DrawnMap]]) -> Iterator[tuple[DrawnMap, float, float]]:
    """Yield every panel with its left and top."""
    for row, top in zip(rows, layout.tops, strict=True):
        for panel, left in zip(row, layout.lefts, strict=False):
            yield panel, left, top


def lowest_maps(layout: PictureLayout, rows: Sequence[Sequence[DrawnMap]]) -> dict[float, float]:
    """Return the top of the last map of each column, by its left."""
    return {left: top for _, left, top in panels_of(layout, rows)}


# --- drawing --------------------------------------------------------------------------------------------


def draw_axes(canvas: Axes, layout: PictureLayout, wording: Wording, axes: tuple[str, str], below: float) -> None:
    """Name the rows and columns of a map, outside everything else on their sides, and never above the maps."""
    size = layout.note_size
    middle = max((layout.tops[0] + layout.bottom) / 2, layout.tops[0] + wording.widest(axes[:1], size) / 2)
    x = layout.beside - LINE * (layout.caption_size if layout.headings else 0) - LINE * size / 2
    write(canvas, x, middle, axes[0], size, color=FAINT, rotation=90)
    middle = (layout.lefts[0] + layout.right) / 2
    write(canvas, middle, layout.bottom + below + LABEL_GAP + LINE * size / 2, axes[1], size, color=FAINT)


def draw_maps(
    canvas: Axes,
    layout: PictureLayout,
    grid: Grid,
    rows: Sequence[Sequence[DrawnMap]],
    shades: Callable[[DrawnMap], ScalarMappable],
) -> None:
    """Draw every map with a frame, and lines and numbers where there is room."""
    frames, lines = [], []
    most = most_cells(layout)
    for panel, x, y in panels_of(layout, rows):
        shade = shades(panel)
        pooled = pool_signed if shade.norm.vmin else pool
        right, bottom = x + layout.wide, y + layout.high
        if hides(panel.matrix):
            canvas.add_patch(hatched(x, y, layout.wide, layout.high))
        canvas.imshow(
            pooled(panel.matrix, *most),  # NaN is no colour: what lies under the map is seen
            cmap=shade.cmap,
            norm=cast(Normalize, shade.norm),
            extent=(x, right, bottom, y),
            aspect="auto",
            interpolation="nearest",
        )
        frames.append([(x, y), (right, y), (right, bottom), (x, bottom), (x, y)])
        if layout.cell >= LINED:
            queries, keys = panel.matrix.shape
            lines += [[(x + key * layout.cell, y), (x + key * layout.cell, bottom)] for key in range(1, keys)]
            lines += [[(x, y + query * layout.cell), (right, y + query * layout.cell)] for query in range(1, queries)]
        if size := number_size(panel, layout, grid.paper):
            dark = dark_ink(shade.to_rgba(panel.matrix))
            for (query, key), value in np.ndenumerate(panel.matrix):
                if not np.isnan(value):
                    strong = "black" if dark[query, key] else "white"  # numbers that round to 0 are faint
                    at = x + (key + 0.5) * layout.cell, y + (query + 0.5) * layout.cell
                    ink = strong if abs(value) >= (0.5 / 10**panel.power if panel.power else 0.005) else FAINT
                    write(canvas, *at, panel.write(float(value)), size, color=ink)
    canvas.add_collection(LineCollection(lines, colors=RULES, linewidths=0.4), autolim=False)
    canvas.add_collection(LineCollection(frames, colors=FAINT, linewidths=0.6), autolim=False)


def factor_of(power: int) -> str:
    """Return " (× 10⁻³)", in which no line breaks; "" for a power of 0."""
    return in_powers(power).replace("× ", f"×{fonts.NO_BREAK}")


def number_size(panel: DrawnMap, layout: PictureLayout, paper: Paper) -> float:
    """Return the points of the numbers in a map's cells; 0 if cells have no room for them."""
    written = [len(panel.write(value)) for value in panel.matrix[~np.isnan(panel.matrix)].tolist()]
    room = layout.cell * POINTS * len("0.00") / max([len("0.00"), *written])
    least = NUMBERED * POINTS if paper.width is None else paper.smallest
    return 0 if room < least else max(min(NUMBER * paper.label, room), paper.smallest)


def draw_highlighted(canvas: Axes, layout: PictureLayout, rows: Sequence[Sequence[DrawnMap]], highlighted: int) -> None:
    """Draw a frame around the row of one query."""
    row = layout.high / len(rows[0][0].matrix)
    for _, x, y in panels_of(layout, rows):
        place = x, y + highlighted * row
        canvas.add_patch(Rectangle(place, layout.wide, row, fill=False, edgecolor=INK, linewidth=1.6, zorder=5))


def draw_keys(
    canvas: Axes, layout: PictureLayout, rows: Sequence[Sequence[DrawnMap]], labels: Sequence[str], turned: bool
) -> None:
    """Draw the keys under the last map of each column."""
    for number in named_places(layout, len(labels)):
        for left, top in lowest_maps(layout, rows).items():
            write(
                canvas,
                left + (number + 0.5) * layout.cell,
                top + layout.high + LABEL_GAP,
                labels[number],
                layout.label_size,
                va="top",
                rotation=90 if turned else 0,
            )
