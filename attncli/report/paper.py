"""The paper of a picture: its width, font, title and resolution."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from attncli.base.errors import RequestError
from attncli.base.printable import quoted

UNITS = {"": 1.0, "in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}  # inches
LENGTH = re.compile(r"\s*(\d{1,6}(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
WIDEST = 100.0  # inches

LABEL = 10.0  # points, of labels that have room
STANDARD = 10.0  # points: the size that other sizes are relative to
COLUMN_LABEL, LABEL_AN_INCH = 7.0, 2.0  # where the width is given: 7 points in a column, 10 across a page
SMALLEST = 6.0  # points, where the width is given: print has no zoom
NOTE = 0.9  # of the labels' size: a note, and every other small word
TITLE = 1.2  # of the labels' size
MARGIN, PRINTED_MARGIN = 0.15, 0.04  # inches; print has the margins of the page
SIZES = (2.0, 72.0)  # points: the range of --font-size

LONGEST_TITLE = 500  # characters
SCREEN_DPI, PRINT_DPI = 150, 300


@dataclass(frozen=True)
class Paper:
    """The width, font, title and resolution of a picture; None lets the picture decide.

    width: in inches. font: a family. font_size: in points. dpi: dots per inch.
    """

    width: float | None = None
    font: str | None = None
    font_size: float | None = None
    title: str | None = None
    dpi: int | None = None

    def titled(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the pieces of the title: the one that is set, none in print, which has captions, or else the usual."""
        if self.title is not None:
            return [self.title]
        return usual if self.width is None else []

    @property
    def dots(self) -> int:
        """The dots per inch of the file; more for print, where the width is given."""
        return self.dpi or (SCREEN_DPI if self.width is None else PRINT_DPI)

    @property
    def label(self) -> float:
        """The points of the tokens' labels, where they have room."""
        if self.font_size is not None:
            return self.font_size
        return LABEL if self.width is None else min(LABEL, max(COLUMN_LABEL, LABEL_AN_INCH * self.width))

    @property
    def smallest(self) -> float:
        """The points below which nothing is written."""
        return 0.0 if self.width is None else min(SMALLEST, self.label)

    @property
    def note(self) -> float:
        """The points of notes and of every other small word."""
        return max(NOTE * self.label, self.smallest)

    @property
    def heading(self) -> float:
        """The points of a title."""
        return TITLE * self.label

    @property
    def margin(self) -> float:
        """The inches that are free around everything."""
        return MARGIN if self.width is None else PRINTED_MARGIN


def paper(
    width: str | float | None = None,
    font: str | None = None,
    font_size: float | None = None,
    title: str | None = None,
    dpi: int | None = None,
) -> Paper:
    """Return the paper that the options describe. width: "8cm", "80mm", "3.15in", "227pt", or a number of inches.

    Raises RequestError for an unreadable width, a size out of range, or too long a title.
    """
    least, most = SIZES
    if font_size is not None and not least <= font_size <= most:
        raise RequestError(f"--font-size {font_size:g} is out of range: {least:g} to {most:g} points")
    if title is not None and len(title) > LONGEST_TITLE:
        raise RequestError(f"--title has {len(title)} characters: at most {LONGEST_TITLE} are drawn")
    return Paper(None if width is None else inches(width), font, font_size, title, dpi)


def too_narrow(paper: Paper, needed_on: Callable[[Paper], float]) -> RequestError:
    """Return the error about a paper on which a picture has no room.

    needed_on: returns the inches that the picture takes on a paper; on a wider one letters are larger.
    """
    assert paper.width is not None
    millimetres = math.floor(paper.width * 25.4)
    while (needed := needed_on(replace(paper, width=millimetres / 25.4)) * 25.4) > millimetres:
        millimetres = math.ceil(needed)
    return RequestError(
        f"--width {paper.width * 2.54:.1f}cm is too narrow for this picture: use --width {millimetres / 10:g}cm"
    )


def inches(length: str | float) -> float:
    """Convert a length, as it is typed, to inches. Raises RequestError if it is not a length, or too large for a
    picture.
    """
    match = LENGTH.fullmatch(str(length))
    value = float(match[1]) * UNITS.get(match[2].lower(), 0.0) if match else 0.0
    if not 0 < value <= WIDEST:
        raise RequestError(
            f'--width {quoted(str(length))}: write it as "8cm", "80mm", "3.15in" or "227pt", up to {WIDEST:g}in'
        )
    return value


def larger(paper: Paper, needed: float) -> Callable[[Paper], float]:
    """Return a bound of the inches that a picture takes on other papers; needed: those on this one."""
    return lambda other: needed * other.label / paper.label
