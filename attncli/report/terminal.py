"""Show any report in the terminal: lines of rich text and tables, fitted to a `Canvas`.

The last section draws the parts of a report. The sections before it draw tables, maps and grids, for features too.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from attncli.base.arrays import Doubles, Floats
from attncli.base.printable import printable, visible
from attncli.record import AttentionRecord
from attncli.record.display import ABOVE, BELOW, HIDDEN, WEIGHTS, hides, pool
from attncli.record.grouping import LONG
from attncli.report.canvas import Canvas, cut, to_width
from attncli.report.parts import (
    Cell,
    HeadGrid,
    HeadLetters,
    MapAxis,
    Maps,
    Part,
    Ranking,
    TextLine,
    TextStyle,
    in_powers,
    three_digits,
    write_cell,
)
from attncli.report.parts import Table as ReportTable
from attncli.text.tokens import Tokens, characters, unknown_name

WRONG = "bold red"

# --- tables and sentences -----------------------------------------------------------------------------


PIPED = 120  # columns of output in a pipe, unless its data needs more, and of sentences everywhere
LEAST_NAME, LEAST_PROSE = 14, 28  # columns that names are cut down to, and that prose folds down to
GAPS = (3, 2, 1)  # spaces between columns, the widest gap first
EDGES = 2  # spaces left and right of a table together
CHINESE = re.compile("[\u4e00-\u9fff]")
HANGING = "  "  # before the rest of a sentence that was folded
NAMED = re.compile(r"(\s*\S+(?: \S+)*\s{2,})\S+(?: \S+)*$")  # a name, one wide gap, and a text

# The content of a column, by rich's name for its overflow.
NUMBERS: Final = "ignore"
NAMES: Final = "ellipsis"
PROSE: Final = "fold"


class FittedTable(Table):
    """A table without a frame that fits its terminal. `plain_table` makes it.

    On a narrow terminal it shrinks in this order until it fits: smaller gaps, headings folded at words, folded
    sentences, cut names, fewer columns. Columns of `dropped_first` are dropped first, then others from the right, never
    the first column. A line below names them. Numbers are never cut. A pipe gets every column and name; sentences fold
    if the table would be wider than 120 columns.

    An empty line stands above and below it; `after_gap` leaves out the one above.
    """

    dropped_first: Sequence[str] = ()
    after_gap = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, gone, gap = list(self.columns), list[Column](), GAPS[0]
        widths = [natural(column) for column in shown]
        if options.is_terminal:
            for column in self.drop_order():
                if narrowest(shown) <= options.max_width:
                    break
                shown.remove(column)
            gone = [column for column in self.columns if column not in shown]
            widths = [natural(column) for column in shown]
            gap = next((gap for gap in GAPS if table_width(widths, gap) <= options.max_width), GAPS[-1])
            over = table_width(widths, gap) - options.max_width
            widths = narrowed(shown, widths, over, (NUMBERS, PROSE, NAMES))
        else:
            widths = narrowed(shown, widths, table_width(widths, gap) - PIPED, (PROSE,))
        made = console.render(self.of(shown, widths, gap, "~" if options.ascii_only else "…"), options)
        if self.after_gap:
            next(segment for segment in made if segment.text == "\n")
        yield from made
        if gone:
            names = [" ".join(plain_text(column.header).split()) for column in gone]
            yield Prose(f"no room for {', '.join(names)}: widen the terminal, or use --json\n", "dim")

    def fits(self, width: int) -> bool:
        """Return True if all columns fit a terminal of this width."""
        return narrowest(self.columns) <= width

    def drop_order(self) -> list[Column]:
        """Return the columns that may be dropped, in this order."""
        by_name = {plain_text(column.header): column for column in self.columns[1:]}
        first = [by_name[name] for name in self.dropped_first]
        return first + [column for column in reversed(self.columns[1:]) if column not in first]

    def of(self, columns: Sequence[Column], widths: Sequence[int], gap: int, ellipsis: str) -> Table:
        """Return the table of these columns, in these widths."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap // 2, 0, (gap - 1) // 2))
        cells = []
        for column, width in zip(columns, widths, strict=True):
            made.add_column(column.header, justify=column.justify, width=width, overflow="fold")
            cells.append([fit(column, cell, width, ellipsis) for cell in column.cells])
        for row, texts in zip(self.rows, zip(*cells, strict=True), strict=True):
            made.add_row(*texts, style=row.style, end_section=row.end_section)
        return made


def plain_table(
    first: str, *others: str, names: Sequence[str] = (), prose: Sequence[str] = (), dropped_first: Sequence[str] = ()
) -> FittedTable:
    """Make a table whose first column holds names. The others hold numbers, or names or sentences if listed.

    names, prose: the headings of the columns with names and with sentences. dropped_first: the columns
    that a narrow terminal drops, the least important first.
    """
    table = FittedTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.dropped_first = dropped_first
    for name in (first, *others):
        if name in prose:
            table.add_column(name, overflow=PROSE)
        elif name == first or name in names:
            table.add_column(name, overflow=NAMES)
        else:
            table.add_column(name, overflow=NUMBERS, justify="right")
    return table


def plain_text(cell: RenderableType) -> str:
    """Return the text of a cell without its style."""
    return cell.plain if isinstance(cell, Text) else str(cell)


def widest(cells: Iterable[RenderableType]) -> int:
    """Return the width of the longest line of all cells."""
    return max((cell_len(line) for cell in cells for line in plain_text(cell).split("\n")), default=0)


def natural(column: Column) -> int:
    """Return the width of a column that shows its cells unchanged."""
    return widest(chain([column.header], column.cells))


def least(column: Column) -> int:
    """Return the least width: that of the longest number or heading word. Names and prose may be narrower."""
    most = {NAMES: LEAST_NAME, PROSE: LEAST_PROSE}.get(str(column.overflow))
    content = widest(column.cells)
    return max(widest(plain_text(column.header).split()), content if most is None else min(content, most))


def table_width(widths: Sequence[int], gap: int) -> int:
    """Return the width of a table with columns of these widths."""
    return EDGES + sum(widths) + gap * (len(widths) - 1)


def narrowest(columns: Sequence[Column]) -> int:
    """Return the least width of a table of these columns."""
    return table_width([least(column) for column in columns], GAPS[-1])


def narrowed(columns: Sequence[Column], widths: Sequence[int], over: int, kinds: Sequence[str]) -> list[int]:
    """Return the widths reduced by `over` in total, if columns of these kinds can shrink that much.

    The first kind shrinks first, and of each kind the widest column.
    """
    made = list(widths)
    spare = [width - least(column) for width, column in zip(widths, columns, strict=True)]
    for kind in kinds:
        for _ in range(over):
            places = [place for place, column in enumerate(columns) if column.overflow == kind and spare[place] > 0]
            if not places:
                break
            place = max(places, key=made.__getitem__)
            made[place] -= 1
            spare[place] -= 1
            over -= 1
    return made


def fit(column: Column, cell: RenderableType, width: int, ellipsis: str) -> RenderableType:
    """Return a cell that fits a column of this width."""
    text = plain_text(cell)
    if widest([text]) <= width or column.overflow == NUMBERS:
        return cell
    style = cell.style if isinstance(cell, Text) else ""
    return Text("\n".join(fold(text, width)) if column.overflow == PROSE else cut(text, width, ellipsis), style)


class Prose:
    """Sentences that fold at words, at the width of the terminal, but at most 120 columns wide."""

    def __init__(self, text: str, style: str = "") -> None:
        self.plain = text
        self.style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(fold(self.plain, min(options.max_width, PIPED))), self.style)


def fold(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, each at most `width` columns wide unless a word is longer.

    A line folds at a wide gap, as between figures, if it has one, else at a word. The rest is indented by two columns,
    or stands below the text after a name and one wide gap.
    """
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())] + HANGING
        named, words = NAMED.match(line), re.findall(r"\s*\S+", line)
        left = cell_len(named[1]) if named else width
        if left <= width // 3 and left + max(cell_len(word.strip()) for word in words) <= width:
            yield from fill(words, width, " " * left)
        else:
            yield from fill(pieces(line, width - len(indent)), width, indent)


def fill(pieces: Iterable[str], width: int, indent: str) -> Iterator[str]:
    """Yield lines of pieces, as many on each as fit; the lines after the first one begin with `indent`."""
    made = ""
    for piece in pieces:
        if made.strip() and cell_len(made + piece) > width:
            yield made
            made = indent + piece.lstrip()
        else:
            made += piece
    yield made


def pieces(line: str, width: int) -> Iterator[str]:
    """Split a line at wide gaps, and pieces longer than `width` at words. Each keeps the gap before it."""
    for piece in re.findall(r"\s*\S+(?: \S+)*", line):
        yield from [piece] if cell_len(piece) <= width else re.findall(r"\s*\S+", piece)


# --- colours of weights -------------------------------------------------------------------------------


# Colours of matplotlib's "inferno" at equal distances, from dark to bright, in steps that look equal.
COLOURS = (
    (0, 0, 4), (27, 12, 65), (74, 12, 107), (120, 28, 109), (165, 44, 96), (207, 68, 70),
    (237, 105, 37), (251, 155, 6), (247, 209, 61), (252, 255, 164),
)  # fmt: skip
# For a light background: from white to dark, as on a page.
ON_LIGHT = tuple((int(one[1:3], 16), int(one[3:5], 16), int(one[5:7], 16)) for one in WEIGHTS)
SHADES = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"
GREY, LIGHT_GREY = "rgb(98,98,98)", "rgb(222,222,222)"  # hidden cells, on a dark and a light background
HATCH, ASCII_HATCH, HATCH_INK, LIGHT_HATCH_INK = "╱", "/", "rgb(160,160,160)", "rgb(130,130,130)"
VALUE_WIDTH = 4  # columns of a cell with its number in it


def brightness(weight: float) -> float:
    """Return the square root of a weight, so that 0.05 among 20 tokens can still be seen."""
    return float(min(max(weight, 0.0), 1.0)) ** 0.5


@cache
def colour_at(step: int, light: bool = False) -> tuple[int, int, int]:
    """Return the colour of brightness step / 100."""
    colours = ON_LIGHT if light else COLOURS
    place = step / 100 * (len(colours) - 1)
    low = min(int(place), len(colours) - 2)
    share = place - low
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(colours[low], colours[low + 1], strict=True))
    return red, green, blue


def colour(weight: float, light: bool = False) -> str:
    """Return the colour of a weight, as rich writes it."""
    if math.isnan(weight):
        return LIGHT_GREY if light else GREY
    red, green, blue = colour_at(round(100 * brightness(weight)), light)
    return f"rgb({red},{green},{blue})"


def ink(weight: float, light: bool = False) -> str:
    """Return a colour that can be read on `colour(weight)`."""
    if math.isnan(weight):
        return LIGHT_HATCH_INK if light else HATCH_INK
    return "black" if (brightness(weight) < 0.55 if light else brightness(weight) > 0.6) else "white"


def ground(weight: float, canvas: Canvas) -> str:
    """Return the style of a text on a weight's colour; "" without colour."""
    return f"{ink(weight, canvas.light)} on {colour(weight, canvas.light)}" if canvas.colour else ""


def shade(weight: float, unicode: bool) -> str:
    """Return a character that is fuller for a larger weight."""
    if math.isnan(weight):
        return HATCH if unicode else ASCII_HATCH
    shades = SHADES if unicode else ASCII_SHADES
    return shades[min(int(brightness(weight) * len(shades)), len(shades) - 1)]


def two_digits(weight: float) -> str:
    """Format a weight as ".42" or "1.0"; "" if it is below half a hundredth."""
    if weight >= 0.995:
        return "1.0"
    return f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def written_weight(weight: float, canvas: Canvas) -> str:
    """Write a weight in a cell: as `two_digits`, with a dot for one that rounds to 0."""
    return two_digits(weight) or ("·" if canvas.unicode else ".")


def cell_text(weight: float, width: int, canvas: Canvas) -> tuple[str, str]:
    """Return the text of a cell of a map that is `width` columns wide, and its style."""
    if math.isnan(weight):
        hatch = shade(weight, canvas.unicode)
        return f"{hatch:>{width}}" if width == VALUE_WIDTH else hatch * width, ground(weight, canvas)
    if canvas.colour:
        return f"{two_digits(weight) if width == VALUE_WIDTH else '':>{width}}", ground(weight, canvas)
    if width == VALUE_WIDTH:
        return f"{written_weight(weight, canvas):>{width}}", ""
    return shade(weight, canvas.unicode) * width, ""


# --- signed numbers -----------------------------------------------------------------------------------


MARKED = 1 / 3  # without colour, cells above this share of the largest number show their sign


def signed_map(
    part: Doubles,
    most: float,
    labels: Sequence[str],
    canvas: Canvas,
    keys: Sequence[int] | None = None,
    power: int = 0,
    weights: bool = False,
) -> list[Text]:
    """Return the rows of a map `[query, key]` as lines, each after its label.

    Cells without room for a number show their colour, or their sign without colour; the last line says so. most: the
    largest absolute number. keys: the numbers of the columns if they are not all keys. power: as in `write_cell`.
    weights: the numbers are weights, which are written as in maps of weights.
    """

    def written(number: float) -> str:
        if number != number:
            return ""
        return written_weight(number, canvas) if weights else write_cell(number, power)

    cells = [[written(number) for number in row] for row in part.tolist()]
    numbered = 1 + max(len(cell) for row in cells for cell in row)
    room = canvas.width - len(labels[0]) - 1
    wide = next((cell for cell in (numbered, 2, 1) if cell * part.shape[1] <= room), 1)
    lines = []
    numbers = column_numbers(range(part.shape[1]) if keys is None else keys, wide)
    lines.append(Text(" " * (len(labels[0]) + 1) + numbers, style=canvas.faint))
    for label, row, texts in zip(labels, part.tolist(), cells, strict=True):
        line = Text(f"{label} ")
        for number, cell in zip(row, texts, strict=True):
            line.append(
                f"{cell:>{wide}}" if wide == numbered else signed_cell(number, most, wide, canvas),
                "" if number != number else signed_ground(number / (most or 1), canvas),
            )
        if not canvas.colour:  # a cell with a colour is made of spaces
            line.rstrip()
        lines.append(line)
    if wide < numbered:
        says = f"red is above 0, blue below, the full colour is {three_digits(most)}"
        if not canvas.colour:
            says = f"+ and - are at least {three_digits(MARKED * most)} from 0, the largest is {three_digits(most)}"
        lines += [Text(line, canvas.faint) for line in fold(f"no room for the numbers: {says}", canvas.width)]
    return lines


def column_numbers(keys: Sequence[int], width: int) -> str:
    """Return the numbers above a map's columns: every second one if they would touch, last digits on single columns."""
    step = 2 if 1 < width <= len(str(max(keys))) else 1
    shown = ("" if place % step else str(key)[-width:] for place, key in enumerate(keys))
    return "".join(f"{one:>{width}}" for one in shown)


def signed_cell(number: float, most: float, wide: int, canvas: Canvas) -> str:
    """Return the text of a cell without room for its number: its sign, or spaces if it is coloured or hidden."""
    if canvas.colour or number != number:
        return " " * wide
    sign = "+" if number > 0 else "-"
    return f"{sign if abs(number) > MARKED * most else '.':>{wide}}"


def signed_ground(share: float, canvas: Canvas) -> str:
    """Return the style of a cell with a share from -1 to 1; "" without colour."""
    if not canvas.colour:
        return ""
    around_0 = 255 if canvas.light else 0
    ends = ABOVE if share > 0 else BELOW
    red, green, blue = (round(around_0 + abs(share) * (one - around_0)) for one in ends)
    return f"{'black' if canvas.light and abs(share) < 0.8 else 'white'} on rgb({red},{green},{blue})"


# --- grids of heads -----------------------------------------------------------------------------------


LAYERS_APART = 2  # columns between layers that stand beside each other


class GridLayout(NamedTuple):
    """The layout of a grid of heads, in columns of the terminal.

    cell: the columns of a head. heads, across: the number of heads and of layers side by side. last: the largest number
    of a layer. named: the heads of a layer follow "layer 3", otherwise "3".
    """

    cell: int
    heads: int
    across: int
    last: int
    named: bool

    @property
    def label(self) -> int:
        """Columns before the heads of a layer."""
        return len(f"layer {self.last} " if self.named else f"{self.last} ")

    @property
    def width(self) -> int:
        """Columns of a layer and of the gap to the next one."""
        return self.label + self.heads * self.cell + LAYERS_APART


def head_grid(
    layers: Sequence[int],
    heads: Sequence[int],
    cell: Callable[[int, int], Text],
    canvas: Canvas,
    widths: Sequence[int],
    lines: int | None = None,
) -> list[Text]:
    """Return a line per layer and a column per head, with the numbers of the heads above.

    cell: draws a head, given the places of its layer and itself in `layers` and `heads`. widths: the columns that a
    head may take, the best first. Cells are right-aligned.
    lines: the number of lines available. If there are more layers, they stand side by side as far as the width allows.
    Heads that do not fit beside the others follow below, in a block of their own.
    """
    layout = layout_of(layers, len(heads), canvas.width, widths, lines)
    rows = -(-len(layers) // layout.across)
    grid = []
    for start in range(0, len(heads), layout.heads):
        places = range(start, min(start + layout.heads, len(heads)))
        title = "head" if layout.named else ""
        numbers = title.ljust(layout.label)
        if layout.cell > len(str(max(heads[place] for place in places))):
            numbers += "".join(f"{heads[place]:>{layout.cell}}" for place in places)
        else:  # no room for all
            numbers += "".join(f"{heads[place]:<{2 * layout.cell}}" for place in places[::2])
        grid.append(Text("".join(numbers.ljust(layout.width) for _ in range(layout.across)).rstrip(), canvas.faint))
        for row in range(rows):
            line = Text()
            for column, place in enumerate(range(row, len(layers), rows)):
                line.pad_right(column * layout.width - line.cell_len)
                name = f"layer {layers[place]}" if layout.named else f"{layers[place]:>{layout.label - 1}}"
                line.append(name.ljust(layout.label))
                for head in places:
                    shown = cell(place, head)
                    line.append(" " * (layout.cell - shown.cell_len)).append_text(shown)
            grid.append(line)
    return grid


def layout_of(layers: Sequence[int], heads: int, columns: int, widths: Sequence[int], lines: int | None) -> GridLayout:
    """Choose the layout with the fewest layers side by side that fits the lines, then the widest.

    If none fits the lines, choose as many layers side by side as the width allows.
    """
    most = 1 if lines is None else len(layers)
    last = max(layers)
    every = [GridLayout(width, heads, 1, last, True) for width in widths]
    every += [GridLayout(width, heads, across, last, False) for across in range(1, most + 1) for width in widths]
    fitting = [layout for layout in every if layout.across * layout.width - LAYERS_APART <= columns]
    if not fitting:
        narrow = GridLayout(min(widths), heads, 1, last, True)
        return narrow._replace(heads=max(1, (columns - narrow.label) // narrow.cell))
    low = [layout for layout in fitting if lines is None or -(-len(layers) // layout.across) <= lines]
    return low[0] if low else max(fitting, key=lambda layout: layout.across)


# --- above maps ---------------------------------------------------------------------------------------


def title(parts: Sequence[str], canvas: Canvas) -> Text:
    """Return the parts of a title on one line; a terminal folds it between parts."""
    mark = " ·" if canvas.unicode else " |"
    marked = [f"{' ' if place else ''}{part}{mark}" for place, part in enumerate(parts)]
    marked[-1] = marked[-1].removesuffix(mark)
    if canvas.height is None:
        return Text("".join(marked), style=canvas.strong)
    room = canvas.width - len(HANGING)
    words = chain(*([part] if cell_len(part) <= room else re.findall(r"\s*\S+", part) for part in marked))
    return Text("\n".join(fill(words, canvas.width, HANGING)), style=canvas.strong)


def legends(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """Return the tokens of the queries, and the tokens of the keys if they differ."""
    if record.key_tokens is None:
        return legend(record.tokens, canvas)
    queries = legend(record.tokens, canvas, record.rows)
    return [Text("queries", style=canvas.faint), *queries, *key_legend(record, canvas)]


def key_legend(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """Return the tokens of the keys if they differ from the queries and are at most LONG; otherwise nothing."""
    if record.key_tokens is None or len(record.key_tokens) > LONG:
        return []
    return [Text("keys", style=canvas.faint), *legend(record.key_tokens, canvas)]


def legend(tokens: Tokens, canvas: Canvas, numbers: Sequence[int] | None = None) -> list[Text]:
    """Return the tokens with their numbers, by default from 0, and explain the mark of an unknown one."""
    return [*numbered_labels(MapAxis("", tokens.shown, numbers), canvas), *unknown_note(tokens, canvas)]


def unknown_note(tokens: Tokens, canvas: Canvas) -> list[Text]:
    """Explain the mark of an unknown token if there is one, and name a model for Chinese if most of it is unknown."""
    token = next((token for token in tokens.shown if unknown_name(token)), None)
    if token is None:
        return []
    notes = [f"{token}: {characters(token)} is not in the vocabulary, so the model reads {unknown_name(token)}"]
    chinese = [token for token in tokens.shown if CHINESE.search(token)]
    unknown = [token for token in chinese if unknown_name(token)]
    if 2 * len(unknown) > len(chinese) > 1:
        notes.append(f"{len(unknown)} of {len(chinese)} Chinese tokens are unknown; -m bert-base-chinese knows Chinese")
    return [Text(visible(note), style=canvas.faint) for note in notes]


def scale(canvas: Canvas, *maps: Floats) -> Text:
    """Explain colours or shades, rows and columns, in one line as far as it fits.

    maps: the drawn maps below. If a cell is hidden there, the line explains its look.
    """
    text = Text("weight 0 ")
    for step in range(13):
        weight = (step / 12) ** 2
        if canvas.colour:
            text.append(" ", style=f"on {colour(weight, canvas.light)}")
        else:
            text.append(shade(weight, canvas.unicode))
    text.append(" 1")
    if hides(*maps):
        text.append("  ").append(*cell_text(math.nan, 2, canvas)).append(f" {HIDDEN}")
    for more in ("  rows: queries, columns: keys", "  (middle of the scale: 0.25)"):
        if text.cell_len + len(more) <= canvas.width:
            text.append(more)
    return text


# --- small maps ---------------------------------------------------------------------------------------


NARROWEST = 20  # columns of a caption, at least
LINES = 32  # lines of a small map, at most
APART = 2  # columns between maps
NUMBERS_WIDTH = 6  # columns before a map for the numbers of two queries: "62,63 "
POOLED = "each cell shows the largest of the weights that it covers"


@dataclass(frozen=True)
class PanelSize:
    """The size of a small map: its columns and lines, and its caption's width, which may be more.

    numbered: there is room for the numbers of its queries and keys.
    """

    columns: int
    width: int
    lines: int = LINES
    numbered: bool = False

    @classmethod
    def of(cls, keys: int, width: int, lines: int = LINES, caption: int = NARROWEST) -> "PanelSize":
        """Fit maps with this number of keys into at most `width` columns."""
        numbered = keys + NUMBERS_WIDTH <= width
        columns = min(keys, width)
        taken = columns + NUMBERS_WIDTH if numbered else columns
        return cls(columns, min(max(taken, caption), width), lines, numbered)

    def pools(self, record: AttentionRecord, canvas: Canvas) -> bool:
        """Return True if a cell shows several weights."""
        return self.columns < len(record.keys) or self.lines * canvas.queries_a_line < len(record.tokens)


def panel_lines(
    caption: str,
    weights: Floats,
    size: PanelSize,
    canvas: Canvas,
    style: str = "",
    rows: Sequence[int] | None = None,
) -> list[Text]:
    """Return a small map under its caption, with the numbers of its tokens if each token has its own cell.

    The last digit of a key stands above its column. The numbers of one or two queries stand before their line. rows:
    the numbers of the queries, by default from 0.
    """
    drawn = picture(weights, canvas, size.columns, size.lines)
    queries, keys = weights.shape
    if size.numbered and keys <= size.columns and queries <= size.lines * canvas.queries_a_line:
        step = canvas.queries_a_line
        every = list(range(queries) if rows is None else rows)
        numbers = [",".join(map(str, every[start : start + step])) for start in range(0, queries, step)]
        drawn = [
            Text.assemble((f"{one if len(one) < NUMBERS_WIDTH else '':>{NUMBERS_WIDTH - 1}} ", canvas.faint), line)
            for one, line in zip(numbers, drawn, strict=True)
        ]
        digits = "".join(str(key % 10) for key in range(keys))
        drawn.insert(0, Text(" " * NUMBERS_WIDTH + digits, canvas.faint))
    return [Text(to_width(caption, size.width, canvas), style=style), *drawn]


def picture(weights: Floats, canvas: Canvas, columns: int, lines: int) -> list[Text]:
    """Return a drawn map as lines: two queries per line with colour, one without. A large map is pooled."""
    rows = pool(weights, lines * canvas.queries_a_line, columns).tolist()
    if canvas.queries_a_line == 2:
        return [half_blocks(upper, lower, canvas.light) for upper, lower in zip_longest(rows[::2], rows[1::2])]
    if canvas.colour:
        return [Text.assemble(*(cell_text(weight, 1, canvas) for weight in row)) for row in rows]
    return [Text("".join(shade(weight, canvas.unicode) for weight in row)) for row in rows]


def half_blocks(upper: Sequence[float], lower: Sequence[float] | None, light: bool) -> Text:
    """Return a line of two queries, hatched where both are hidden. The last line may have only one."""
    if lower is None:
        return Text.assemble(*(("▀", colour(top, light)) for top in upper))
    line = Text()
    for top, bottom in zip(upper, lower, strict=True):
        hidden = math.isnan(top) and math.isnan(bottom)
        above = ink(top, light) if hidden else colour(top, light)
        line.append(HATCH if hidden else "▀", f"{above} on {colour(bottom, light)}")
    return line


def in_rows(panels: Sequence[list[Text]], width: int, canvas: Canvas) -> list[Text]:
    """Return panels of `width` columns in rows that fit the canvas, with an empty line between rows.

    rich's `Columns` would leave spaces at the ends of lines.
    """
    across = max(1, (canvas.width + APART) // (width + APART))
    lines = []
    for start in range(0, len(panels), across):
        for parts in zip(*panels[start : start + across], strict=True):
            for part in parts:
                part.pad_right(width - part.cell_len)
            lines.append(Text(" " * APART).join(parts))
            lines[-1].rstrip()
        lines.append(Text())
    return lines[:-1]


# --- reports ------------------------------------------------------------------------------------------

MAP_LINES = 24  # lines of a map of weights, at most
ROW_LABEL = 14  # columns of a row's label, at most on a narrow canvas; a wide one has room for more


def lines_of(heading: Sequence[str], parts: Sequence[Part], canvas: Canvas) -> list[RenderableType]:
    """Return a report as lines and tables: its title, then every part."""
    shown: list[RenderableType] = [title([printable(one) for one in heading], canvas)] if heading else []
    for part in parts:
        if isinstance(part, TextLine):
            made = Prose if part.text and part.folds else Text
            shown.append(made(printable(part.text), style_of(part.style, canvas)))
        elif isinstance(part, ReportTable):
            shown += [Text(part.title, style=canvas.strong)] if part.title else []
            table, before = table_of(part, canvas), shown[-1] if shown else None
            table.after_gap = isinstance(before, FittedTable) or (isinstance(before, Text) and not before.plain)
            shown.append(table)
        elif isinstance(part, Ranking):
            shown.append(ranking_table(part, canvas))
        elif isinstance(part, Maps):
            shown += numbered_maps(part, canvas) if part.signed or part.numbered else weight_maps(part, canvas)
        elif isinstance(part, HeadGrid):
            shown += letter_grid(part, part.letters, canvas) if part.letters else head_grids(part, canvas)
        else:
            shown += part.terminal(canvas)
    return shown


def style_of(style: TextStyle, canvas: Canvas) -> str:
    """Return rich's name of a style."""
    return {"": "", "strong": canvas.strong, "faint": canvas.faint, "wrong": WRONG if canvas.colour else ""}[style]


def table_of(table: ReportTable, canvas: Canvas) -> FittedTable:
    """Convert a report's table to one that fits its terminal, with cells coloured by their shares."""
    first, *others = table.columns
    droppable = sorted((one for one in table.columns if one.drop), key=lambda one: one.drop)
    made = plain_table(
        first.name,
        *(one.name for one in others),
        names=[one.name for one in others if one.kind == "name"],
        prose=[one.name for one in table.columns if one.kind == "prose"],
        dropped_first=[one.name for one in droppable],
    )
    for row in table.rows:
        if row is None:
            made.add_section()
            continue
        shown = []
        for cell in row:
            text, style, share, signed = cell if isinstance(cell, Cell) else Cell(cell)
            on = style_of(style, canvas)
            if share is not None:
                on = signed_ground(share, canvas) if signed else ground(share, canvas)
            shown.append(Text("\n".join(map(printable, text.split("\n"))), on))
        made.add_row(*shown)
    return made


def ranking_table(part: Ranking, canvas: Canvas) -> FittedTable:
    """Return a table with as many names in each column as all columns have room for; a pipe has all of them."""
    for count in range(max(1, *(len(some) for _, row in part.rows for some in row)), 0, -1):
        table = plain_table(
            part.name, *part.columns, dropped_first=[name for name in part.dropped_first if name in part.columns]
        )
        for column in table.columns:
            column.justify = "left"
        for label, row in part.rows:
            cells = []
            for some in row:  # long names are cut, except in a pipe
                named = [f"{canvas.within(name, LEAST_NAME)} {number}" for name, number in some[:count]]
                cells.append(Text("  ".join(named) or part.nothing))
            table.add_row(Text(label), *cells)
        if canvas.height is None or table.fits(canvas.width):
            break
    return table


def row_labels(axis: MapAxis, canvas: Canvas) -> list[str]:
    """Return the labels of a map's rows with their positions, all of one width."""
    names = [visible(label) for label in axis.labels]
    width = min(max(ROW_LABEL, canvas.width // 4), max(map(cell_len, names), default=0))
    numbers = [f"{place:>3} " for place in axis.places] if axis.numbers is not None else [""] * len(names)
    return [f"{number}{to_width(name, width, canvas)}" for number, name in zip(numbers, names, strict=True)]


def token_labels(tokens: Tokens, canvas: Canvas, numbers: Sequence[int] | None = None) -> list[str]:
    """Return tokens with their numbers, by default from 0, all of one width."""
    return row_labels(MapAxis("", tokens.shown, range(len(tokens)) if numbers is None else numbers), canvas)


def numbered_maps(part: Maps, canvas: Canvas) -> Iterator[RenderableType]:
    """Yield maps with their numbers, beside each other on a terminal that has room, else under each other."""
    labels = row_labels(part.rows, canvas)
    if part.columns.labels != part.rows.labels and part.columns.numbers is not None:
        yield Text(part.columns.name, style=canvas.faint)
        yield from numbered_labels(part.columns, canvas)
    blocks = []
    for panel in part.all_panels:
        most = part.most if part.most is not None else panel.largest
        power = 0 if panel.weights else part.power
        about = f"{part.rows.name} down and {part.columns.name} across"
        heading = ", ".join(filter(None, [panel.name, about])) + in_powers(power, canvas.unicode)
        values = np.float64(panel.values)
        blocks.append((heading, signed_map(values, most, labels, canvas, part.columns.places, power, panel.weights)))
    width = max(cell_len(line) for heading, lines in blocks for line in (heading, *(one.plain for one in lines)))
    if canvas.height is not None and len(blocks) > 1 and 2 * width + APART <= canvas.width:
        yield Text()
        yield from in_rows([[Text(heading, canvas.strong), *lines] for heading, lines in blocks], width, canvas)
        return
    for heading, lines in blocks:
        yield Text()
        yield Prose(heading, canvas.strong)
        if canvas.height is not None and max(line.cell_len for line in lines) > canvas.width:
            yield Prose("no room for the map: try less -S, or draw it with -o map.svg", canvas.faint)
        else:
            yield from lines


def weight_maps(part: Maps, canvas: Canvas) -> Iterator[RenderableType]:
    """Yield maps of weights as small panels beside each other, under the numbered tokens."""
    yield from numbered_labels(part.rows, canvas)
    if part.columns.labels != part.rows.labels:
        yield Text("keys", style=canvas.faint)
        yield from numbered_labels(part.columns, canvas)
    yield scale(canvas, *(np.float32(panel.values) for panel in part.all_panels))
    across = max(map(len, part.panels))
    caption = max(NARROWEST, *(cell_len(panel.name) for panel in part.all_panels))
    numbered = len(part.columns.labels) + NUMBERS_WIDTH  # narrower maps have no numbers, so fewer stand in a row
    width = min(max((canvas.width - APART * (across - 1)) // across, numbered, caption), canvas.width)
    size = PanelSize.of(len(part.columns.labels), width, MAP_LINES, caption)
    if any(size.columns < panel.values.shape[1] for panel in part.all_panels):
        yield Text(POOLED)
    for place, row in enumerate(part.panels):
        yield Text()
        if part.headings:
            yield Text(printable(part.headings[place]), style=canvas.strong)
        drawn = [panel_lines(one.name, np.float32(one.values), size, canvas) for one in row]
        yield from in_rows(drawn, size.width, canvas)


def numbered_labels(axis: MapAxis, canvas: Canvas) -> list[Text]:
    """Return the labels of an axis with their positions, as many on a line as fit."""
    lines, line = [], Text()
    for place, label in zip(axis.places, map(visible, axis.labels), strict=True):
        label = canvas.within(label, canvas.width - len(f"{place} "))
        if line and line.cell_len + 2 + cell_len(f"{place} {label}") > canvas.width:
            lines.append(line)
            line = Text()
        line.append(f"  {place} " if line else f"{place} ", style=canvas.faint)
        line.append(label)
    return [*lines, line]


def head_grids(part: HeadGrid, canvas: Canvas) -> Iterator[RenderableType]:
    """Yield a grid of heads for each panel."""
    power = part.power
    for panel in part.panels:
        most = part.most or panel.largest or 1.0
        wide = 1 + max(len(write_cell(value, power)) for value in panel.values.flat if value == value)

        def cell(row: int, place: int, values: Any = panel.values, wide: int = wide, most: float = most) -> Text:
            value = float(values[row, place])
            if value != value:
                return Text(" " * wide)
            share = value / most
            style = signed_ground(share, canvas) if part.signed else ground(share**2 if part.linear else share, canvas)
            return Text(f"{write_cell(value, power):>{wide}}", style=style)

        yield Text()
        if heading := (panel.heading + in_powers(power, canvas.unicode)).strip():
            yield Prose(heading, canvas.strong if panel.name else "")
        yield from head_grid(part.layers, part.heads, cell, canvas, (wide,))


def letter_grid(part: HeadGrid, letters: HeadLetters, canvas: Canvas) -> list[RenderableType]:
    """Return a grid of heads with their letters, and what these mean."""
    wide = 1 + max(map(len, letters.by_place.values()), default=1)
    nothing = "·" if canvas.unicode else "."

    def cell(row: int, place: int) -> Text:
        shown = letters.by_place.get((row, place))
        return Text(shown or nothing, style=canvas.strong if shown else canvas.faint)

    meanings = [*letters.meanings.items(), (nothing, "none")]
    legend = "  ".join(f"{letter} {meaning}" for letter, meaning in meanings)
    return [*head_grid(part.layers, part.heads, cell, canvas, (wide,)), Prose(legend, canvas.faint)]


def text_of(heading: Sequence[str], parts: Sequence[Part]) -> str:
    """Return a report as a pipe gets it: 100 columns for maps, tables whole, no colour."""
    console = Console(highlight=False, markup=False, emoji=False, width=10_000, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(*lines_of(heading, parts, Canvas(100, False, True)), sep="\n", soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
