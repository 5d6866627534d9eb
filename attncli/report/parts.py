"""The parts of a report: sentences, tables, maps, grids of heads.

Parts are plain data and know no medium: `attncli.report.terminal`, `attncli.report.figure` and `attncli.report.page`
each draw any part. What only one feature draws is a part of its own, a subclass of `Part`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """A part of a report. A feature's own part overrides the media that it can be shown in."""

    def terminal(self, canvas: "Canvas") -> "list[RenderableType]":
        """Return the lines and tables of the part in the terminal; none where it does not stand there."""
        return []

    def figure(self, title: Sequence[str], paper: "Paper") -> "Figure | None":
        """Return the picture of the part on this paper, under the title of its report; None where it is not drawn."""
        return None

    def page(self) -> str | None:
        """Return the part as a whole page; None where a page has it among the other parts, or not at all."""
        return None


@dataclass(frozen=True)
class TextLine(Part):
    """Sentences in plain text.

    caption: pictures and pages have it too, such as a unit, a baseline or a control. Other sentences stand in the
    terminal and on the page. folds: whether a long one folds; a script finds one that does not in a single line.
    """

    text: str
    style: TextStyle = ""
    caption: bool = False
    folds: bool = True


class Column(NamedTuple):
    """A column of a table, with its unit in its name.

    kind: numbers are never cut on a narrow terminal, names are, and prose folds. leaves: the order in which columns
    leave a table that is too wide, from 1; those without a number leave last, from the right.
    """

    name: str
    kind: ColumnKind = "number"
    leaves: int = 0


class Cell(NamedTuple):
    """A cell of a table with a style of its own.

    share: of its column's largest number, which a terminal with colour shows behind the text: as of a weight, from 0 to
    1, or where it is `signed` around 0, from -1 to 1. None has no colour.
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
    """A table of what comes first: in each column the best names with their numbers, as many as have room.

    name: of the first column. rows: its cell, and for each column names with numbers, the best first. nothing: stands
    where there are none. goes: columns that leave a narrow terminal first.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Sequence[tuple[str, str]]]]]
    nothing: str
    goes: Sequence[str] = ()


@dataclass(frozen=True)
class MapAxis:
    """One side of a map: its name, and the labels of its rows or columns.

    numbers: their positions in the text, by default from 0. special: which labels are special tokens.
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

    weights: the map has weights, which on a page have a scale of their own beside signed maps.
    """

    name: str
    values: "Doubles | Floats"
    about: str = ""
    weights: bool = False

    @property
    def heading(self) -> str:
        """The name, and the sentence about it."""
        return ": ".join(filter(None, [self.name, self.about]))

    @property
    def largest(self) -> float:
        """The largest size of a value; 0 where all cells are hidden."""
        import numpy as np

        return float(np.nanmax(np.abs(self.values), initial=0.0)) if not np.isnan(self.values).all() else 0.0


@dataclass(frozen=True)
class Maps(Part):
    """Maps between the same rows and columns, beside each other.

    rows of panels: a picture draws them as rows under each other. scale: the name and unit of the values. signed: the
    colours go from below 0 to above 0; otherwise values are 0 or more. numbered: a terminal prints the numbers even if
    they are not signed; otherwise they are weights from 0 to 1. apart: each map has a scale of its
    own, up to its largest value. most: the value with the full colour; by default the largest one. highlighted: the
    place of a row that stands out in a picture.
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


class HeadLetters(NamedTuple):
    """Letters for heads: by their places in the grid, none for a head without; and what each letter means."""

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


class BarRow(NamedTuple):
    """A row of a picture of bars: its label, its bar and its mark as shares (None for none), and its words.

    interval: of the bar. sure: False draws the row in grey.
    """

    label: str
    bar: float | None
    mark: float | None
    texts: Sequence[str]
    interval: tuple[float, float] | None = None
    sure: bool = True


class BarBlock(NamedTuple):
    """Rows of bars under the headings of their labels and of each column of words."""

    label: str
    columns: Sequence[str]
    rows: Sequence[BarRow]


class RowKey(NamedTuple):
    """A key: its place and its token, its weight, and whether the mask shows it."""

    place: int
    shown: str
    weight: float
    allowed: bool


class BarStep(NamedTuple):
    """A column of bars: its heading, a number a key and how it is written, its colour and the sum as it is written.

    leaves: the order in which columns leave a narrow picture, from 1; 0 stays.
    """

    heading: str
    values: Sequence[float]
    texts: Sequence[str]
    colour: int
    total: str
    leaves: int


# --- numbers ------------------------------------------------------------------------------------------


def in_cell(value: float) -> str:
    """Write a number in a cell: two decimals, "<.01" if it rounds to 0, and "0" for 0."""
    if value == 0:
        return "0"
    if abs(value) < 0.005:
        return "<.01" if value > 0 else ">-.01"
    return f"{value:.2f}"


def three_digits(value: float) -> str:
    """Write a number with three significant digits, or all digits of a larger whole part, and "0" for 0."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def signed(value: float) -> str:
    """Write a number with three significant digits and its sign."""
    return f"+{three_digits(value)}" if value > 0 else three_digits(value)
