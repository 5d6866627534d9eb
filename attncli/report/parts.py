"""The parts of a report: sentences, tables, maps, grids of heads.

Parts are plain data and know no medium: `attncli.report.terminal`, `attncli.report.figure` and `attncli.report.page`
each draw any part. A part that only one feature draws is a subclass of `Part`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from attncli.base.arrays import Doubles, Floats
    from attncli.report.canvas import Canvas
    from attncli.report.paper import Paper


TextStyle = Literal["", "strong", "faint", "wrong"]
ColumnKind = Literal["number", "name", "prose"]


class Part:
    """A part of a report. A feature's own part overrides a method for each medium that can show it."""

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        """Return the lines and tables of the part for the terminal; an empty list if the terminal does not show it."""
        return []

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure | None":
        """Return a picture of the part on this paper, under the title of its report; None if it is not drawn."""
        return None

    def page(self) -> str | None:
        """Return a page with only this part; None if a page shows it among other parts, or not at all."""
        return None


@dataclass(frozen=True)
class TextLine(Part):
    """Sentences in plain text.

    caption: pictures and pages show it too, for example a unit, a baseline or a control. Other sentences appear in the
    terminal and on the page. folds: False keeps a long text on one line, for scripts.
    """

    text: str
    style: TextStyle = ""
    caption: bool = False
    folds: bool = True


class Column(NamedTuple):
    """A column of a table, with its unit in its name.

    kind: numbers are never cut on a narrow terminal, names are, and prose folds. drop: the order in which columns are
    dropped from a table that is too wide, from 1; those with 0 are dropped last, from the right.
    """

    name: str
    kind: ColumnKind = "number"
    drop: int = 0


class Cell(NamedTuple):
    """A cell of a table with a style of its own.

    share: the number divided by the largest of its column, 0 to 1, or -1 to 1 if `signed`. A terminal with colour shows
    it behind the text. None has no colour.
    """

    text: str
    style: TextStyle = ""
    share: float | None = None
    signed: bool = False


@dataclass(frozen=True)
class Table(Part):
    """A table. The first column holds names, whatever its kind says. A row of None is a rule between rows."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell] | None]
    title: str = ""


@dataclass(frozen=True)
class Ranking(Part):
    """A table of rankings: each column lists its best names with their numbers, as many as have room.

    name: the heading of the first column. rows: the first cell, then for each column its names and numbers, the best
    first. nothing: the text of an empty cell. dropped_first: the columns that a narrow terminal drops first.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Sequence[tuple[str, str]]]]]
    nothing: str
    dropped_first: Sequence[str] = ()


@dataclass(frozen=True)
class MapAxis:
    """One side of a map: its name, and the labels of its rows or columns.

    numbers: their positions in the text, by default from 0. special: True for each label that is a special token.
    """

    name: str
    labels: Sequence[str]
    numbers: Sequence[int] | None = None
    special: Sequence[bool] = ()

    @property
    def places(self) -> list[int]:
        """The positions of the labels."""
        return list(range(len(self.labels)) if self.numbers is None else self.numbers)


@dataclass(frozen=True)
class Panel:
    """One map, `[row, column]`; NaN is a hidden cell. about: a sentence about it, for media with room for one.

    weights: the map has weights; on a page with signed maps they have their own scale. marked: the cells (row, column)
    that a page frames.
    """

    name: str
    values: "Doubles | Floats"
    about: str = ""
    weights: bool = False
    marked: Sequence[tuple[int, int]] = ()

    @property
    def heading(self) -> str:
        """The name, and the sentence about it."""
        return ": ".join(filter(None, [self.name, self.about]))

    @property
    def largest(self) -> float:
        """The largest absolute value; 0 if all cells are hidden."""
        import numpy as np

        from attncli.record.display import largest_weight

        return largest_weight(np.abs(self.values))


@dataclass(frozen=True)
class Maps(Part):
    """Maps between the same rows and columns, beside each other.

    panels: row by row, as a picture draws them. scale: the name and unit of the values. signed: the
    colours go from below 0 to above 0; otherwise values are 0 or more. numbered: a terminal prints the numbers even if
    they are not signed; otherwise they are weights from 0 to 1. apart: each map has its own scale,
    up to its largest value. most: the value with the full colour; by default the largest one. headings: of the rows
    of panels. highlighted: the index of a row that a picture emphasises.
    """

    panels: Sequence[Sequence[Panel]]
    rows: MapAxis
    columns: MapAxis
    scale: str = "attention weight"
    signed: bool = False
    numbered: bool = False
    apart: bool = False
    most: float | None = None
    headings: Sequence[str] = ()
    highlighted: int | None = None

    @property
    def all_panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.panels for panel in row]

    @property
    def power(self) -> int:
        """The power of ten that multiplies the numbers in cells, except weights."""
        counted = [panel.values for panel in self.all_panels if not panel.weights]
        return power_of_cells(counted, SMALL) if self.signed or self.numbered else 0


class HeadLetters(NamedTuple):
    """Letters for heads, by their places in the grid, and the meanings of the letters."""

    by_place: Mapping[tuple[int, int], str]
    meanings: Mapping[str, str]


@dataclass(frozen=True)
class HeadGrid(Part):
    """A number per head: layers down, heads across.

    panels: values `[layer, head]`. scale, signed, most: as in `Maps`. linear: in a terminal the brightness of a head
    grows with its number; otherwise with the number's root, as in maps. letters: a terminal prints them in place of the
    numbers. about: sentences that stand only on the page.
    """

    panels: Sequence[Panel]
    layers: Sequence[int]
    heads: Sequence[int]
    scale: str
    signed: bool = False
    most: float | None = None
    linear: bool = False
    letters: HeadLetters | None = None
    about: Sequence[str] = ()

    @property
    def power(self) -> int:
        """The power of ten that multiplies the numbers in cells."""
        small = SMALL if self.signed else ONE_DIGIT if self.most is None else 0.0
        return power_of_cells([panel.values for panel in self.panels], small)


class BarRow(NamedTuple):
    """A row of a bar chart: its label, its bar and its mark as shares (None for none), and the texts beside it.

    interval: the interval of the bar. sure: False draws the row in grey.
    """

    label: str
    bar: float | None
    mark: float | None
    texts: Sequence[str]
    interval: tuple[float, float] | None = None
    sure: bool = True


class BarBlock(NamedTuple):
    """Rows of bars, the heading of their labels, and the headings of the columns of texts."""

    label: str
    columns: Sequence[str]
    rows: Sequence[BarRow]


class RowKey(NamedTuple):
    """A key: its place, its token and its weight. allowed: True if the mask shows it."""

    place: int
    shown: str
    weight: float
    allowed: bool


class BarStep(NamedTuple):
    """A column of bars: its heading, a number per key with its text, its colour, and the text of the sum.

    drop: the order in which a narrow picture drops columns, from 1; 0 stays.
    """

    heading: str
    values: Sequence[float]
    texts: Sequence[str]
    colour: int
    total: str
    drop: int


# --- numbers ------------------------------------------------------------------------------------------

SMALL = 0.5
ONE_DIGIT = 0.1  # two decimals show at most one digit of a smaller number
LOST = 0.005  # two decimals show a smaller number as "<.01"
MANY_LOST = 0.2  # the share of such numbers from which on a map up to 1 has three decimals
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def in_cell(value: float) -> str:
    """Write a number in a cell: two decimals, "<.01" if it rounds to 0, and "0" for 0."""
    if value == 0:
        return "0"
    if abs(value) < 0.005:
        return "<.01" if value > 0 else ">-.01"
    return f"{value:.2f}"


def power_of_cells(maps: "Sequence[Doubles | Floats]", small: float) -> int:
    """Return the power of ten by which cells are multiplied, so that the largest has three digits.

    It is 0 for maps of zeros, and for maps that reach `small`: their cells have two decimals (`in_cell`). But if many
    of these would be "<.01", and none is above 1, it is 3.
    """
    import numpy as np

    sizes = np.abs(np.concatenate([np.ravel(one) for one in maps]) if maps else np.zeros(0))
    sizes = sizes[sizes > 0]  # neither hidden nor 0
    largest = float(sizes.max(initial=0.0))
    if 0 < largest < small:
        return 2 - floor(log10(largest))
    return 3 if 0 < largest <= 1 and float(np.mean(sizes < LOST)) > MANY_LOST else 0


def write_cell(value: float, power: int) -> str:
    """Write a number in a cell whose map has this `power_of_cells`."""
    return str(round(value * 10**power)) if power else in_cell(value)


def in_powers(power: int, unicode: bool = True) -> str:
    """Return the end of a heading that says the unit of the numbers below it: " (× 10⁻³)"; "" for a power of 0."""
    if power == 0:
        return ""
    return f" (× 10⁻{str(power).translate(RAISED)})" if unicode else f" (x 10^-{power})"


def three_digits(value: float) -> str:
    """Write a number with three significant digits, or all digits of a larger whole part, and "0" for 0."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def signed(value: float) -> str:
    """Write a number with three significant digits and its sign."""
    return f"+{three_digits(value)}" if value > 0 else three_digits(value)
