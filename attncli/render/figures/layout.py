"""Where everything goes in a picture of panels: planned in inches, before anything is drawn.

Every text is measured first, so that no label lies on another. A picture is a grid of panels of one size with
words around them (`arrange`); how large a panel is, and what stands beside it, each style says for itself
(`attncli.render.figures.matrix`, `attncli.render.figures.lines`). Where the picture's width is given, `largest_panels`
finds their size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from attncli.base.errors import RequestError
from attncli.render.figures.texts import wrap_line
from attncli.render.figures.wording import READABLE, STANDARD, Wording

# Points.
TITLE, NOTE = 1.2, 0.9  # of the labels' size; a note, and every other small word
LINE = 1.3 / 72  # the height of a line in inches, by points

# Inches.
ONE_PANEL, ALL_PANELS = 12.0, 14.0  # the side of one panel, and of a grid of them, that is aimed at
SMALLEST_PANEL = 1.0
SMALLEST_PRINTED = 0.12  # a panel, where the width is given
LARGEST_GRID = 40.0  # where panels grow so that their labels can be read
NARROWEST = 4.6
LABEL_GAP, CLOSE = 0.04, 0.03  # from a panel to its labels, and to its caption
MARGIN, PRINTED_MARGIN = 0.15, 0.04  # what is printed at its size has the page's margins around it
GAP = 0.12  # between panels, for text of the standard size
FEW = 4  # panels
SHARPNESS = 75  # cells an inch at the most


@dataclass(frozen=True)
class Sides:
    """Inches that are kept free round the panels, for what each style puts there.

    outer: left of the rows' headings; left: between those and the panels.
    """

    outer: float
    left: float
    right: float
    above: float
    below: float


@dataclass(frozen=True)
class Layout:
    """Places in inches from the upper left corner, and sizes of text in points.

    needed: what everything takes of the picture's width.
    lefts, tops: of the columns and rows of panels; wide, high: of a panel; cell: of a token in it.
    beside: right of the rows' headings; edge: right of the last column and its captions.
    label_size: of the tokens, 0 where they can't be read. unit: of what is around the panels, by how much it is
    larger than for text of the standard size.
    """

    width: float
    needed: float
    height: float
    margin: float
    lefts: list[float]
    tops: list[float]
    wide: float
    high: float
    cell: float
    beside: float
    edge: float
    unit: float
    label_size: float
    caption_size: float
    note_size: float
    title_size: float
    captions: list[list[str]]
    headings: list[str]
    title: list[str]
    note: list[str]

    @property
    def tick_size(self) -> float:
        """Points of the numbers that stand for labels: no larger than a small panel's caption."""
        return min(self.note_size, self.caption_size)

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.wide

    @property
    def bottom(self) -> float:
        return self.tops[-1] + self.high


def arrange(
    wording: Wording, sides: Sides, wide: float, high: float, cell: float, scale: float, lowest: float = 0.0
) -> Layout:
    """Panels of one size and the words around them; nothing lies on anything else.

    lowest: inches that are needed below the first panel's top, whatever the panels take.
    """
    paper = wording.paper
    margin = MARGIN if paper.width is None else PRINTED_MARGIN
    unit = scale * paper.label / STANDARD
    title_size, note_size = TITLE * paper.label * scale, NOTE * paper.label * scale
    caption_size = wording.caption_size(scale, wide)
    captions = [[wording.shortened(caption, wide, caption_size) for caption in row] for row in wording.captions]
    headings = [wording.shortened(heading, high, caption_size) for heading in wording.headings]

    gap = GAP * unit if paper.width is None else min(GAP * unit, CLOSE + wide / 8)
    columns = len(captions[0])
    lines = [line for row in captions for caption in row for line in caption.split("\n")]
    column = max(wide, wording.widest(lines, caption_size)) + gap
    left = margin + sides.outer + (LINE * caption_size if headings else 0) + sides.left
    needed = left + columns * column - gap + sides.right + margin
    width = paper.width or max(NARROWEST, needed)
    left += (width - needed) / 2
    lefts = [left + number * column + (column - gap - wide) / 2 for number in range(columns)]

    title = wrap_line(wording.title, title_size, width - 2 * margin, wording.families)
    note = wrap_line(wording.note, note_size, width - 2 * margin, wording.families)
    y = margin + LINE * (title_size * len(title) + note_size * len(note)) + GAP * unit / scale
    row_height = max(high, wording.widest(headings, caption_size))
    tops: list[float] = []
    for row in captions:
        above = LINE * caption_size * max(len(caption.splitlines()) for caption in row)
        y += above if tops else max(above, sides.above)
        tops.append(y + (row_height - high) / 2)
        y += row_height + gap
    return Layout(
        width=width,
        needed=needed,
        height=max(y - gap + sides.below, tops[0] + lowest) + margin,
        margin=margin,
        lefts=lefts,
        tops=tops,
        wide=wide,
        high=high,
        cell=cell,
        beside=left - sides.left,
        edge=left + columns * column - gap,
        unit=unit,
        label_size=wording.label_size(cell),
        caption_size=caption_size,
        note_size=note_size,
        title_size=title_size,
        captions=captions,
        headings=headings,
        title=title,
        note=note,
    )


def largest_panels(lay_out: Callable[[float], Layout], width: float, least: float, most: float) -> Layout:
    """The layout with the largest panels that takes no more than `width` inches.

    lay_out: a size from `least` to `most` -> the layout. Raises RequestError when even the smallest is too wide.
    """
    layout = lay_out(least)
    if layout.needed > width:
        fits = math.ceil(layout.needed * 25.4) / 10
        raise RequestError(f"--width: {width * 2.54:.1f}cm is too narrow for this picture; {fits:g}cm would do")
    for _ in range(20):
        middle = (least + most) / 2
        tried = lay_out(middle)
        if tried.needed <= width:
            least, layout = middle, tried
        else:
            most = middle
    return layout


def cell_size(tokens: int, across: int, panels: int, largest: float) -> float:
    """Inches of a token: `tokens` along a panel, `across` along the whole grid; above `largest` only in tiny ones."""
    cell = min(largest, ONE_PANEL / tokens, ALL_PANELS / across)
    if panels <= FEW and across * READABLE <= LARGEST_GRID:
        cell = max(cell, READABLE)
    return max(cell, SMALLEST_PANEL / tokens)


def most_cells(layout: Layout) -> tuple[int, int]:
    """How many rows and columns of a map can be told apart."""
    return round(layout.high * SHARPNESS), round(layout.wide * SHARPNESS)


def shortened_note(layout: Layout, wording: Wording) -> str:
    """What the numbers of rows and columns are, where there is room for nothing but numbers."""
    pairs = {"rows": (layout.headings, wording.headings), "columns": (layout.captions[0], wording.captions[0])}
    return ", ".join(f"{side}: {full[0].rpartition(' ')[0]}" for side, (short, full) in pairs.items() if short != full)


def pooling_note(layout: Layout, queries: int, keys: int) -> str:
    """What a cell is where there are more weights than can be told apart; nothing where there are not."""
    rows, columns = most_cells(layout)
    if queries <= rows and keys <= columns:
        return ""
    return f"a cell is the largest weight of up to {-(-queries // rows)} x {-(-keys // columns)} tokens"
