"""Where everything goes in a picture of maps: planned in inches, before anything is drawn.

Every text is measured first, so that no label lies on another. `attncli.render.figure` draws what is planned here.
"""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.record import Floats
from attncli.render import fonts

NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps words together where a title is wrapped

# Sizes of text, in points, of a picture of at most `ROOMY` inches; a larger one has larger words.
TITLE, CAPTION, WORD, LABEL, NUMBER = 12.0, 10.0, 9.0, 10.0, 9.0
ROOMY = 10.0
LINE = 1.3 / 72  # the height of a line in inches, by points

# Inches.
ONE_PANEL, ALL_PANELS = 12.0, 14.0  # the side of one map, and of a grid of them, that is aimed at
LARGE_CELL, GRID_CELL = 0.55, 0.3  # the largest cells, of few panels and of many
LEVEL_CELL, LEVEL_GRID = 0.85, 9.0  # the same where cells grow so that key labels need not be turned
SMALLEST_PANEL = 1.0
READABLE = 0.065  # the smallest cell with a label beside it
LARGEST_GRID = 40.0  # where maps grow so that their labels can be read
LABEL_GAP = 0.04
NUMBERED = 0.36  # the smallest cell with its weight in it
LINED = 0.12  # the smallest cell with a line around it
SHARPNESS = 75  # cells an inch at the most
MARGIN, GAP = 0.15, 0.12
BAR_GAP, BAR_WIDTH, BAR_WORDS = 0.25, 0.16, 0.75
SHORTEST_BAR, LONGEST_BAR = 1.2, 4.0
NARROWEST = 4.6
FEW = 4  # panels


@dataclass(frozen=True)
class Panel:
    """One map `[query, key]` of a grid, and the words above it; a line break in them starts a new line."""

    caption: str
    matrix: Floats


def wrap_panels(panels: list[Panel]) -> list[list[Panel]]:
    """Panels in rows: a little wider than high, with few places left over."""

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        return 2 * (rows * columns - len(panels)) + abs(columns - 1.3 * rows)

    columns = min(range(1, len(panels) + 1), key=cost)
    return [panels[start : start + columns] for start in range(0, len(panels), columns)]


@dataclass(frozen=True)
class Layout:
    """Places in inches from the upper left corner, and sizes of text in points.

    lefts, tops: of the columns and rows of maps; side: of a map; cell: of a token in it.
    words, bar: right of the rows' headings, left of the colour bar.
    label_size: of the tokens, 0 where they can't be read; turned: whether key labels stand upright.
    scale: how much larger than in a small picture the other words are.
    """

    width: float
    height: float
    lefts: list[float]
    tops: list[float]
    side: float
    cell: float
    label_size: float
    label_width: float
    turned: bool
    caption_size: float
    scale: float
    words: float
    bar: float
    title: list[str]
    note: list[str]

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.side

    @property
    def bottom(self) -> float:
        return self.tops[-1] + self.side


def plan(
    rows: Sequence[Sequence[Panel]],
    labels: Sequence[str],
    headings: Sequence[str],
    title: str,
    note: str,
    families: Sequence[str],
) -> Layout:
    """Where everything goes: every text is measured, and what stands beside it keeps its distance."""
    columns, across = len(rows[0]), max(len(rows), len(rows[0]))
    widest = max(fonts.widths(labels, LABEL, families)) + 2 * LABEL_GAP
    cell = cell_size(len(labels), across, sum(len(row) for row in rows), widest)
    label_size = min(LABEL, cell * 72 / 1.2) if cell >= READABLE else 0.0
    label_width = widest * label_size / LABEL
    turned = label_width > cell
    side = cell * len(labels)
    scale = max(1.0, side * across / ROOMY)
    caption_size = CAPTION * min(scale, side)

    captions = [line for row in rows for panel in row for line in panel.caption.split("\n")]
    gap = GAP * scale
    column = max(side, *fonts.widths(captions, caption_size, families)) + gap
    left = MARGIN + LINE * WORD * scale + LABEL_GAP + (LINE * caption_size if headings else 0) + label_width
    right = (BAR_GAP + BAR_WIDTH + BAR_WORDS) * scale + MARGIN
    width = max(NARROWEST, left + columns * column - gap + right)
    left += (width - (left + columns * column - gap + right)) / 2
    lefts = [left + number * column + (column - gap - side) / 2 for number in range(columns)]

    titles = wrap_line(title, TITLE * scale, width - 2 * MARGIN, families)
    notes = wrap_line(note, WORD * scale, width - 2 * MARGIN, families)
    y = MARGIN + LINE * scale * (TITLE * len(titles) + WORD * len(notes)) + GAP
    row_height = max([side, *fonts.widths(headings, caption_size, families)])
    tops = []
    for row in rows:
        y += LINE * caption_size * max(len(panel.caption.splitlines()) for panel in row)
        tops.append(y + (row_height - side) / 2)
        y += row_height + gap
    y += (label_width if turned else LINE * label_size) + LABEL_GAP + LINE * WORD * scale - gap
    return Layout(
        width=width,
        height=max(y, tops[0] + SHORTEST_BAR * scale) + MARGIN,
        lefts=lefts,
        tops=tops,
        side=side,
        cell=cell,
        label_size=label_size,
        label_width=label_width,
        turned=turned,
        caption_size=caption_size,
        scale=scale,
        words=left - label_width - LABEL_GAP,
        bar=left + columns * column - gap + BAR_GAP * scale,
        title=titles,
        note=notes,
    )


def cell_size(tokens: int, across: int, panels: int, label_width: float) -> float:
    """The side of a token's cell, for so many panels, `across` of them along the grid's longer side."""
    side = min(ONE_PANEL, ALL_PANELS / across)
    cell = min(LARGE_CELL if panels <= FEW else GRID_CELL, side / tokens)
    if cell < label_width <= LEVEL_CELL and across * tokens * label_width <= LEVEL_GRID:
        cell = label_width
    if panels <= FEW and across * tokens * READABLE <= LARGEST_GRID:
        cell = max(cell, READABLE)
    return max(cell, SMALLEST_PANEL / tokens)


def wrap_line(text: str, size: float, width: float, families: Sequence[str]) -> list[str]:
    """`text` in lines that are not wider than `width` inches."""
    lines = []
    for line in text.splitlines():
        [needed] = fonts.widths([line], size, families)
        columns = len(line) if needed <= width else int(0.9 * len(line) * width / needed)
        lines += textwrap.wrap(line, max(columns, 1), break_on_hyphens=False)
    return [line.removesuffix(" ·").replace(NO_BREAK, " ") for line in lines]


def placed(layout: Layout, rows: Sequence[Sequence[Panel]]) -> Iterator[tuple[Panel, float, float]]:
    """Every panel with its left and top."""
    for row, top in zip(rows, layout.tops, strict=True):
        for panel, left in zip(row, layout.lefts, strict=False):
            yield panel, left, top
