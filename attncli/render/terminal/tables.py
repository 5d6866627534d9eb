"""Tables and grids of heads in the terminal, and the sentences below them: a row is a line, whatever the width."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from attncli.render.terminal.canvas import cut

PIPED = 120  # columns of what has no terminal's width, where its data doesn't need more
LEAST_NAME, LEAST_PROSE = 14, 28  # columns that names are cut down to, and that prose folds down to
GAPS = (3, 2, 1)  # columns between columns, the wide ones first
EDGES = 2  # columns left and right of a table
HANGING = "  "  # before the rest of a sentence that was folded

# What a column holds; as rich says what becomes of it where it is too long.
NUMBERS: Final = "ignore"
NAMES: Final = "ellipsis"
PROSE: Final = "fold"


# --- tables ---------------------------------------------------------------------------------------------


class FittedTable(Table):
    """A table without a frame that fits where it is printed; `plain_table` makes it.

    On a terminal that is too narrow, until it fits: the gaps become smaller, headings fold at words, sentences fold,
    names are cut, and then columns go, those of `goes` first and then from the right, but never the first; a line below
    says which. Numbers are never cut. In a pipe every column and every name is there; sentences fold where the table
    would be wider than 120 columns.
    """

    goes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, gone, gap = list(self.columns), [], GAPS[0]
        widths = [natural(column) for column in shown]
        if options.is_terminal:
            for column in self.going():
                if narrowest(shown) <= options.max_width:
                    break
                shown.remove(column)
                gone.append(" ".join(said(column.header).split()))
            widths = [natural(column) for column in shown]
            gap = next((gap for gap in GAPS if table_width(widths, gap) <= options.max_width), GAPS[-1])
            over = table_width(widths, gap) - options.max_width
            widths = narrowed(shown, widths, over, (NUMBERS, PROSE, NAMES))
        else:
            widths = narrowed(shown, widths, table_width(widths, gap) - PIPED, (PROSE,))
        yield self.of(shown, widths, gap, "~" if options.ascii_only else "…")
        if gone:
            yield Prose(f"no room for {', '.join(gone)}: a wider terminal or --json has what is left out", "dim")

    def fits(self, width: int) -> bool:
        """Whether all columns have room in so many columns of a terminal."""
        return narrowest(self.columns) <= width

    def going(self) -> list[Column]:
        """The columns that may go, in the order in which they do."""
        by_name = {said(column.header): column for column in self.columns[1:]}
        first = [by_name[name] for name in self.goes]
        return first + [column for column in reversed(self.columns[1:]) if column not in first]

    def of(self, columns: Sequence[Column], widths: Sequence[int], gap: int, ellipsis: str) -> Table:
        """These columns, so wide."""
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap // 2, 0, (gap - 1) // 2))
        cells = []
        for column, width in zip(columns, widths, strict=True):
            made.add_column(column.header, justify=column.justify, width=width, overflow="fold")
            cells.append([fit(column, cell, width, ellipsis) for cell in column.cells])
        for row, texts in zip(self.rows, zip(*cells, strict=True), strict=True):
            made.add_row(*texts, style=row.style, end_section=row.end_section)
        return made


def plain_table(
    first: str, *others: str, names: Sequence[str] = (), prose: Sequence[str] = (), goes: Sequence[str] = ()
) -> FittedTable:
    """A table whose first column holds names, and whose others hold numbers.

    names, prose: columns with names and with sentences, by their headings, which are all different. goes: columns that
    a narrow terminal does without before it does without others, the least important first.
    """
    table = FittedTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.goes = goes
    for name in (first, *others):
        if name in prose:
            table.add_column(name, overflow=PROSE)
        elif name == first or name in names:
            table.add_column(name, overflow=NAMES)
        else:
            table.add_column(name, overflow=NUMBERS, justify="right")
    return table


def said(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def widest(cells: Iterable[RenderableType]) -> int:
    """Columns of the longest line of all cells."""
    return max((cell_len(line) for cell in cells for line in said(cell).split("\n")), default=0)


def natural(column: Column) -> int:
    """The width in which all of a column stands as it is."""
    return widest(chain([column.header], column.cells))


def least(column: Column) -> int:
    """The width that it needs: that of its longest number and of any word of its heading; names and prose need less."""
    most = {NAMES: LEAST_NAME, PROSE: LEAST_PROSE}.get(str(column.overflow))
    content = widest(column.cells)
    return max(widest(said(column.header).split()), content if most is None else min(content, most))


def table_width(widths: Sequence[int], gap: int) -> int:
    """Of a table with columns so wide."""
    return EDGES + sum(widths) + gap * (len(widths) - 1)


def narrowest(columns: Sequence[Column]) -> int:
    """The width that a table of these columns needs."""
    return table_width([least(column) for column in columns], GAPS[-1])


def narrowed(columns: Sequence[Column], widths: Sequence[int], over: int, kinds: Sequence[str]) -> list[int]:
    """`widths`, together by `over` smaller as far as columns of these kinds can be: the first kind first, and of a kind
    always the widest.
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
    """A cell as it stands in a column so wide."""
    text = said(cell)
    if widest([text]) <= width or column.overflow == NUMBERS:
        return cell
    style = cell.style if isinstance(cell, Text) else ""
    return Text("\n".join(fold(text, width)) if column.overflow == PROSE else cut(text, width, ellipsis), style)


# --- sentences ------------------------------------------------------------------------------------------


class Prose:
    """Sentences: they fold at words, at the terminal's width or, in a pipe, at 120 columns."""

    def __init__(self, text: str, style: str = "") -> None:
        self.plain = text
        self.style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width if options.is_terminal else PIPED
        yield Text("\n".join(fold(self.plain, width)), self.style)


def fold(text: str, width: int) -> Iterator[str]:
    """Its lines in at most `width` columns, unless a word is longer; what doesn't fit goes on two columns further in.

    They fold at wide gaps, which stand between figures, before they fold at words.
    """
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())] + HANGING
        made = ""
        for piece in pieces(line, width - len(indent)):
            if made.strip() and cell_len(made + piece) > width:
                yield made
                made = indent + piece.lstrip()
            else:
                made += piece
        yield made


def pieces(line: str, width: int) -> Iterator[str]:
    """A line at its wide gaps, and what is longer than `width` at its words; each with the gap before it."""
    for piece in re.findall(r"\s*\S+(?: \S+)*", line):
        yield from [piece] if cell_len(piece) <= width else re.findall(r"\s*\S+", piece)
