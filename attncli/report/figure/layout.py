"""Plan a picture of panels in inches, before anything is drawn.

Every text is measured first, so that no label overlaps another. A picture is a grid of panels of one size with words
around them (`arrange`). Each style decides how large a panel is and what stands beside it (`maps`, `lines`). Where the
width of the picture is given, `largest_panels` finds the size of the panels.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from attncli.base.errors import RequestError
from attncli.report.figure import fonts
from attncli.report.figure.fonts import LONGEST_LABEL, ON_SCREEN, clean, clean_lines, token_label, wrap_line
from attncli.report.paper import SMALLEST, STANDARD, Paper, too_narrow

# --- the grid -----------------------------------------------------------------------------------------

T = TypeVar("T")


@dataclass(frozen=True)
class Grid:
    """The words around the panels of a picture, and the query that stands out.

    tokens: the queries, and the keys too unless there are other `keys`. headings: words to the left of each row. title,
    note: above everything. numbers: of queries and keys in the text, where not all of it is drawn; else they are
    counted from 0. axes: the names of a panel's rows and columns. highlighted: the place of a query that stands out.
    vmax: the weight with the full colour; None is the largest that is drawn. apart: whether each panel has its own.
    paper: the width and the font.
    """

    tokens: Sequence[str]
    keys: Sequence[str] | None = None
    headings: Sequence[str] = ()
    title: str = ""
    note: str = ""
    numbers: tuple[Sequence[int], Sequence[int]] | None = None
    axes: tuple[str, str] = ("query", "key")
    highlighted: int | None = None
    vmax: float | None = None
    apart: bool = False
    paper: Paper = field(default_factory=Paper)

    def labels(self) -> tuple[list[str], list[str]]:
        """Return the queries and the keys as they stand beside a map."""
        longest = LONGEST_LABEL if self.paper.width is not None else ON_SCREEN
        queries = [token_label(token, longest) for token in self.tokens]
        return queries, queries if self.keys is None else [token_label(token, longest) for token in self.keys]

    def ticks(self) -> tuple[list[str], list[str]]:
        """Return the numbers of queries and keys, which replace labels that have no room."""
        keys = self.tokens if self.keys is None else self.keys
        queries, across = self.numbers or (range(len(self.tokens)), range(len(keys)))
        return [str(number) for number in queries], [str(number) for number in across]


def wrap_panels(panels: Sequence[T]) -> list[list[T]]:
    """Arrange panels in rows: a little wider than high, with few empty places."""

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        return 1.5 * (rows * columns - len(panels)) + abs(columns - 1.3 * rows)

    columns = min(range(1, len(panels) + 1), key=cost)
    return [list(panels[start : start + columns]) for start in range(0, len(panels), columns)]


def fold_rows(rows: Sequence[Sequence[T]], lay_out: Callable[[list[Sequence[T]]], object]) -> list[Sequence[T]]:
    """Fold every row into as few rows of one length as have room; `lay_out` raises RequestError without room."""
    folded = list(rows)
    for parts in range(1, len(rows[0]) + 1):
        across = math.ceil(len(rows[0]) / parts)
        folded = [row[start : start + across] for row in rows for start in range(0, len(row), across)]
        with suppress(RequestError):
            lay_out(folded)
            break
    return folded


# --- words --------------------------------------------------------------------------------------------

ROOMY = 10.0  # inches: panels that take more have larger words around them
READABLE = 0.065  # inches: the smallest cell with a label beside it, where one can zoom in
LABEL_LINE = 1.1 / 72  # the inches of a label, by its points
FOLDED = 0.85  # of the room for a line: its longest word
LONGEST_STEP = 5  # tokens from one label to the next; with less room, numbers replace labels


@dataclass(frozen=True)
class Wording:
    """The words of a picture, made harmless, and the font families that show them.

    captions: of the panels, by row; a line break starts a new line. headings: left of each row, or none.
    """

    captions: list[list[str]]
    headings: list[str]
    title: str
    note: str
    families: tuple[str, ...]
    paper: Paper

    @classmethod
    def of(cls, grid: Grid, captions: Sequence[Sequence[str]], others: Sequence[str]) -> "Wording":
        """Return the words of a grid with these captions, in fonts that show the `others` too.

        A Notice names characters that no font on this machine has.
        """
        above = [[clean_lines(caption) for caption in row] for row in captions]
        left = [clean(heading) for heading in grid.headings]
        title, note = clean_lines(grid.title), clean_lines(grid.note)
        every = [*others, *(caption for row in above for caption in row), *left, title, note]
        return cls(above, left, title, note, tuple(fonts.families(every, grid.paper.font)), grid.paper)

    def widest(self, texts: Sequence[str], size: float) -> float:
        """Return the inches that the widest of these texts takes in `size` points."""
        return widest(tuple(texts), self.families) * size / STANDARD

    def scale(self, side: float) -> float:
        """Return the factor for the size of words around panels of `side` inches in total. A requested size is kept."""
        fixed = self.paper.width is not None or self.paper.font_size is not None
        return 1.0 if fixed else max(1.0, side / ROOMY)

    def caption_size(self, scale: float, wide: float) -> float:
        """Return the points of the words above a panel of `wide` inches, whose words are `scale` times larger."""
        return max(self.paper.label * min(scale, wide), self.paper.smallest)

    def label_size(self, cell: float) -> tuple[float, int]:
        """Return the points of tokens' labels that have `cell` inches each, and the step from one label to the next.

        If not all have room, every 2nd token has a label, or every 3rd and so on; the points are 0 if that is not
        enough.
        """
        if cell >= (READABLE if self.paper.width is None else self.paper.smallest * LABEL_LINE):
            return min(self.paper.label, max(cell * 72 / 1.2, self.paper.smallest)), 1
        size = self.paper.smallest or SMALLEST
        step = math.ceil(size * LABEL_LINE / cell)
        return (size, step) if step <= LONGEST_STEP else (0.0, 1)

    def shortened(self, text: str, room: float, size: float) -> str:
        """Fold words that have no room; in print shorten "head 3.1" to "3.1"."""
        kind, _, number = text.partition(" ")
        if kind in ("head", "layer") and " " not in number:
            return text if self.paper.width is None else number
        if self.widest(text.split("\n"), size) <= room:
            return text
        room = max(room, self.widest(text.split(), size))
        return "\n".join(wrap_line(text, size, room / fonts.FILLED, self.families, whole=True))


@lru_cache(maxsize=64)  # the search for the largest panels measures the same texts again and again
def widest(texts: tuple[str, ...], families: tuple[str, ...]) -> float:
    return max(fonts.widths(texts, STANDARD, families), default=0.0)


# --- places -------------------------------------------------------------------------------------------

LINE = 1.3 / 72  # the height of a line in inches, by points

# Inches.
ALL_PANELS = 8.0  # the side of a grid of panels that is aimed at
SMALLEST_PANEL = 1.0
SMALLEST_PRINTED = 0.12  # a panel, where the width is given
LARGEST_GRID = 16.0  # where panels grow so that their labels can be read: up to 246 tokens
TALLEST = 9.5  # a picture that fits on a page
NARROWEST = 4.6
LABEL_GAP, CLOSE = 0.04, 0.03  # from a panel to its labels, and to its caption
GAP = 0.12  # between panels, for text of the standard size
FEW = 4  # panels
WORDY = 1.15  # widths of a panel: its caption is folded where it is longer
SHARPNESS = 75  # cells an inch, at most


@dataclass(frozen=True)
class Margins:
    """Inches that are kept free around the panels, for each style to fill.

    outer: left of the headings of rows. left: between those and the panels.
    """

    outer: float
    left: float
    right: float
    above: float
    below: float


@dataclass(frozen=True)
class PictureLayout:
    """Places in inches from the upper left corner, and sizes of text in points.

    needed: the width that everything needs. lefts, tops: of the columns and rows of panels. wide, high: of a panel.
    cell: of a token in it. beside: right of the headings of rows. edge: right of the last column and its captions.
    label_size: of the tokens; 0 where they can't be read. label_step: from one label to the next. unit: how much
    larger things around the panels are than for text of the standard size.
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
    label_step: int
    caption_size: float
    note_size: float
    title_size: float
    captions: list[list[str]]
    headings: list[str]
    title: list[str]
    note: list[str]

    @property
    def tick_size(self) -> float:
        """The points of the numbers that replace labels, at most those of a small panel's caption."""
        return min(self.note_size, self.caption_size)

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.wide

    @property
    def bottom(self) -> float:
        return self.tops[-1] + self.high


def arrange(
    wording: Wording, sides: Margins, wide: float, high: float, cell: float, scale: float, lowest: float = 0.0
) -> PictureLayout:
    """Arrange panels of one size and the words around them, so that nothing overlaps.

    lowest: inches that are needed below the top of the first panel, whatever the panels take.
    """
    paper = wording.paper
    margin = paper.margin
    unit = scale * paper.label / STANDARD
    title_size, note_size = paper.heading * scale, paper.note * scale
    caption_size = wording.caption_size(scale, wide)
    captions = wording.captions
    longest = wording.widest(
        [line for row in captions for caption in row for line in caption.split("\n")], caption_size
    )
    if longest > (wide if paper.width is not None else WORDY * wide):
        words = [word for row in captions for caption in row for word in caption.split()]
        room = max(wide, wording.widest(words, caption_size))  # a column has room for its widest word
        captions = [[wording.shortened(caption, room, caption_size) for caption in row] for row in captions]
    label_size, label_step = wording.label_size(cell)

    gap = GAP * unit if paper.width is None else min(GAP * unit, CLOSE + wide / 8)
    columns = len(captions[0])
    lines = [line for row in captions for caption in row for line in caption.split("\n")]
    column = max(wide, wording.widest(lines, caption_size)) + gap
    left = margin + sides.outer + (LINE * caption_size if wording.headings else 0) + sides.left
    needed = left + columns * column - gap + sides.right + margin
    width = paper.width or max(NARROWEST, needed)
    left += (width - needed) / 2
    lefts = [left + number * column + (column - gap - wide) / 2 for number in range(columns)]

    title = wrap_line(wording.title, title_size, width - 2 * margin, wording.families)
    note = wrap_line(wording.note, note_size, width - 2 * margin, wording.families)
    y = margin + LINE * (title_size * len(title) + note_size * len(note)) + GAP * unit / scale
    row_height = max(high, wording.widest(wording.headings, caption_size))
    tops: list[float] = []
    for row in captions:
        above = LINE * caption_size * max(len(caption.splitlines()) for caption in row)
        y += above if tops else max(above, sides.above)
        tops.append(y + (row_height - high) / 2)
        y += row_height + gap
    return PictureLayout(
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
        label_size=label_size,
        label_step=label_step,
        caption_size=caption_size,
        note_size=note_size,
        title_size=title_size,
        captions=captions,
        headings=wording.headings,
        title=title,
        note=note,
    )


def largest_panels(
    lay_out: Callable[[float, Paper], PictureLayout], paper: Paper, least: float, most: float
) -> PictureLayout:
    """Return the layout with the largest panels that is at most as wide as the paper.

    lay_out: returns the layout for a size from `least` to `most` and a paper. Raises RequestError when even the
    smallest is too wide.
    """
    layout, width = lay_out(least, paper), paper.width or math.inf
    if layout.needed > width:
        raise too_narrow(paper, lambda wider: lay_out(least, wider).needed)
    for _ in range(20):
        middle = (least + most) / 2
        tried = lay_out(middle, paper)
        if tried.needed <= width:
            least, layout = middle, tried
        else:
            most = middle
    return layout


def bar_length(width_of: Callable[[float], float], paper: Paper, least: float, usual: float) -> float | None:
    """Return the inches of the longest bar with which a picture is as wide as its paper.

    width_of: returns the width of the picture with bars of this length. None if even the `least` has no room.
    """
    if paper.width is None:
        return usual
    if width_of(least) > paper.width:
        return None
    longest = paper.width
    for _ in range(30):
        middle = (least + longest) / 2
        least, longest = (middle, longest) if width_of(middle) <= paper.width else (least, middle)
    return least


def left_out_note(names: Sequence[str]) -> str:
    """Name the columns that have no room."""
    return f"no room for: {', '.join(names)}" if names else ""


def cell_size(tokens: int, across: int, panels: int, largest: float) -> float:
    """Return the inches of a token, with `tokens` along a panel and `across` along the whole grid.

    They are above `largest` only in tiny panels.
    """
    cell = min(largest, ALL_PANELS / across)
    if panels <= FEW and across * READABLE <= LARGEST_GRID:
        cell = max(cell, READABLE)
    return max(cell, SMALLEST_PANEL / tokens)


def most_cells(layout: PictureLayout) -> tuple[int, int]:
    """Return the number of rows and columns of a map that a reader can distinguish."""
    return round(layout.high * SHARPNESS), round(layout.wide * SHARPNESS)


def shortened_note(layout: PictureLayout, wording: Wording) -> str:
    """Say what the numbers above the maps count, if the captions have room for nothing else."""
    short, full = layout.captions[0][0], wording.captions[0][0]
    return f"above each map: its {full.partition(' ')[0]}" if full.endswith(f" {short}") else ""


def pooling_note(layout: PictureLayout, queries: int, keys: int) -> str:
    """Say how many tokens share a cell, if there are more than a reader can tell apart; otherwise nothing."""
    rows, columns = most_cells(layout)
    if queries <= rows and keys <= columns:
        return ""
    return f"a cell is the largest weight of up to {-(-queries // rows)} x {-(-keys // columns)} tokens"


def step_note(step: int) -> str:
    """Say that not all tokens have a label."""
    return f"every {step}{ {2: 'nd', 3: 'rd'}.get(step, 'th') } token is named"


# --- numbers instead of labels ------------------------------------------------------------------------

STEPS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
APART = 1.5  # of a number's room, from one to the next: the first and last may be moved into their panel by half of it
TICK = 0.03  # inches


def tick_room(wording: Wording, numbers: Sequence[str], size: float, cell: float) -> float:
    """Return the inches from a panel to the far side of the widest number beside it; 0 where there is none."""
    return wording.widest(numbers, size) + LABEL_GAP + TICK if tick_places(len(numbers), cell, LINE * size) else 0.0


def tick_height(wording: Wording, numbers: Sequence[str], size: float, cell: float) -> float:
    """Return the inches from a panel to the lower side of the numbers under it; 0 where there is none."""
    return LINE * size + TICK if tick_places(len(numbers), cell, wording.widest(numbers, size)) else 0.0


def tick_places(count: int, cell: float, room: float) -> list[int]:
    """Return the tokens that have a number, every 1, 2, 5, 10 ...; none where only one would. room: its inches."""
    step = next(step for step in STEPS if step * cell >= APART * room + LABEL_GAP / 2)
    return list(range(0, count, step)) if count > step else []


def ticks_note(layout: PictureLayout, queries: Sequence[str], keys: Sequence[str], across: float = 0.0) -> str:
    """Say what stands in place of labels; nothing where the labels are there.

    queries, keys: their numbers. across: the inches of a key's number, where keys go from left to right.
    """
    if layout.label_size:
        return step_note(layout.label_step) if layout.label_step > 1 else ""
    high = LINE * layout.tick_size
    there = tick_places(len(queries), layout.cell, high) or tick_places(len(keys), layout.cell, across or high)
    return "numbers count from 0" if there else f"no room for {len(queries)} x {len(keys)} labels"
