"""Where everything goes in a picture: planned in inches, before anything is drawn.

Every text is measured first, so that no label lies on another. A picture is a grid of panels of one size with
words around them (`arrange`); how large a panel is, and what stands beside it, each style says for itself
(`attncli.render.matrix`, `attncli.render.lines`). Where the picture's width is given, `fit` finds the panels.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from attncli.errors import RequestError
from attncli.record import Floats
from attncli.render import fonts
from attncli.render.paper import Paper

T = TypeVar("T")

NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps words together where a title is wrapped

# Points.
STANDARD = 10.0  # the size that other sizes are relative to
TITLE, WORD = 1.2, 0.9  # of the labels' size
LINE = 1.3 / 72  # the height of a line in inches, by points

# Inches.
ROOMY = 10.0  # panels that take more have larger words around them
ONE_PANEL, ALL_PANELS = 12.0, 14.0  # the side of one panel, and of a grid of them, that is aimed at
SMALLEST_PANEL = 1.0
SMALLEST_PRINTED = 0.12  # a panel, where the width is given
READABLE = 0.065  # the smallest cell with a label beside it, where one can zoom in
LARGEST_GRID = 40.0  # where panels grow so that their labels can be read
NARROWEST = 4.6
LABEL_GAP, CLOSE = 0.04, 0.03  # from a panel to its labels, and to its caption
MARGIN, PRINTED_MARGIN = 0.15, 0.04  # what is printed at its size has the page's margins around it
GAP = 0.12  # between panels, for text of the standard size
FEW = 4  # panels


@dataclass(frozen=True)
class Panel:
    """One map `[query, key]` of a grid, and the words above it; a line break in them starts a new line."""

    caption: str
    matrix: Floats


@dataclass(frozen=True)
class Words:
    """What a picture says besides its tokens, and the font families that have it all.

    captions: of the panels, by row; a line break starts a new line. headings: left of each row, or none.
    """

    captions: list[list[str]]
    headings: list[str]
    title: str
    note: str
    families: tuple[str, ...]
    paper: Paper

    def widest(self, texts: Sequence[str], size: float) -> float:
        """Inches that the widest of these texts takes in `size` points."""
        return widest(tuple(texts), self.families) * size / STANDARD

    def scale(self, side: float) -> float:
        """How much larger words are around panels that take `side` inches together; a size asked for is kept."""
        fixed = self.paper.width is not None or self.paper.font_size is not None
        return 1.0 if fixed else max(1.0, side / ROOMY)

    def label_size(self, cell: float) -> float:
        """Points of a token's label that has `cell` inches; 0 where it can't be read."""
        if cell < (READABLE if self.paper.width is None else self.paper.smallest * 1.1 / 72):
            return 0.0
        return min(self.paper.label, max(cell * 72 / 1.2, self.paper.smallest))


@lru_cache(maxsize=64)  # `fit` asks for the same again and again
def widest(texts: tuple[str, ...], families: tuple[str, ...]) -> float:
    return max(fonts.widths(texts, STANDARD, families), default=0.0)


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
    words: right of the rows' headings; edge: right of the last column and its captions.
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
    words: float
    edge: float
    unit: float
    label_size: float
    caption_size: float
    word_size: float
    title_size: float
    captions: list[list[str]]
    headings: list[str]
    title: list[str]
    note: list[str]

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.wide

    @property
    def bottom(self) -> float:
        return self.tops[-1] + self.high


def arrange(
    words: Words, sides: Sides, wide: float, high: float, cell: float, scale: float, lowest: float = 0.0
) -> Layout:
    """Panels of one size and the words around them; nothing lies on anything else.

    lowest: inches that are needed below the first panel's top, whatever the panels take.
    """
    paper = words.paper
    margin = MARGIN if paper.width is None else PRINTED_MARGIN
    unit = scale * paper.label / STANDARD
    title_size, word_size = TITLE * paper.label * scale, WORD * paper.label * scale
    caption_size = max(paper.label * min(scale, wide), paper.smallest)
    captions = [[shortened(caption, wide, caption_size, words) for caption in row] for row in words.captions]
    headings = [shortened(heading, high, caption_size, words) for heading in words.headings]

    gap = GAP * unit if paper.width is None else min(GAP * unit, CLOSE + wide / 8)
    columns = len(captions[0])
    lines = [line for row in captions for caption in row for line in caption.split("\n")]
    column = max(wide, words.widest(lines, caption_size)) + gap
    left = margin + sides.outer + (LINE * caption_size if headings else 0) + sides.left
    needed = left + columns * column - gap + sides.right + margin
    width = paper.width or max(NARROWEST, needed)
    left += (width - needed) / 2
    lefts = [left + number * column + (column - gap - wide) / 2 for number in range(columns)]

    title = wrap_line(words.title, title_size, width - 2 * margin, words.families)
    note = wrap_line(words.note, word_size, width - 2 * margin, words.families)
    y = margin + LINE * (title_size * len(title) + word_size * len(note)) + GAP * unit / scale
    row_height = max(high, words.widest(headings, caption_size))
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
        words=left - sides.left,
        edge=left + columns * column - gap,
        unit=unit,
        label_size=words.label_size(cell),
        caption_size=caption_size,
        word_size=word_size,
        title_size=title_size,
        captions=captions,
        headings=headings,
        title=title,
        note=note,
    )


def fit(plan: Callable[[float], Layout], width: float, least: float, most: float) -> Layout:
    """The layout with the largest panels that takes no more than `width` inches.

    plan: a size from `least` to `most` -> the layout. Raises RequestError when even the smallest is too wide.
    """
    layout = plan(least)
    if layout.needed > width:
        fits = math.ceil(layout.needed * 25.4) / 10
        raise RequestError(f"--width: {width * 2.54:.1f}cm is too narrow for this picture; {fits:g}cm would do")
    for _ in range(20):
        middle = (least + most) / 2
        tried = plan(middle)
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


def shortened(text: str, room: float, size: float, words: Words) -> str:
    """ "head 11" is "11" where the width is given and leaves no room for more."""
    if words.paper.width is None or words.widest(text.split("\n"), size) <= room:
        return text
    return text.rpartition(" ")[2]


def wrap_line(text: str, size: float, width: float, families: Sequence[str]) -> list[str]:
    """`text` in lines that are not wider than `width` inches."""
    lines = []
    for line in text.splitlines():
        [needed] = fonts.widths([line], size, families)
        columns = len(line) if needed <= width else int(0.9 * len(line) * width / needed)
        lines += textwrap.wrap(line, max(columns, 1), break_on_hyphens=False)
    return [line.removesuffix(" ·").replace(NO_BREAK, " ") for line in lines]


def wrap_panels(panels: Sequence[T]) -> list[list[T]]:
    """Panels in rows: a little wider than high, with few places left over."""

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        return 2 * (rows * columns - len(panels)) + abs(columns - 1.3 * rows)

    columns = min(range(1, len(panels) + 1), key=cost)
    return [list(panels[start : start + columns]) for start in range(0, len(panels), columns)]
