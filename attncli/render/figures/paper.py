"""What is asked of a picture's size: its width, its font and the size of its letters. Not where things go."""

import re
from dataclasses import dataclass

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.render.figures import fonts

UNITS = {"": 1.0, "in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}  # inches
LENGTH = re.compile(r"\s*(\d{1,6}(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
WIDEST = 100.0  # inches

LABEL = 10.0  # points, of labels that have room
COLUMN_LABEL, LABEL_AN_INCH = 7.0, 2.0  # where the width is given: 7 points in a column, 10 across a page
SMALLEST = 6.0  # points, where the width is given: what is printed at its size can't be zoomed into
SIZES = (2.0, 72.0)  # points that can be asked for


@dataclass(frozen=True)
class Paper:
    """What is asked for; None is for the picture to decide. width in inches, font a family, font_size in points."""

    width: float | None = None
    font: str | None = None
    font_size: float | None = None

    @property
    def label(self) -> float:
        """Points of the tokens' labels, where they have room."""
        if self.font_size is not None:
            return self.font_size
        return LABEL if self.width is None else min(LABEL, max(COLUMN_LABEL, LABEL_AN_INCH * self.width))

    @property
    def smallest(self) -> float:
        """Points below which nothing is written."""
        return 0.0 if self.width is None else min(SMALLEST, self.label)


def paper(width: str | float | None = None, font: str | None = None, font_size: float | None = None) -> Paper:
    """What the options mean. width: "8cm", "80mm", "3.15in", "227pt", or a number of inches.

    Raises RequestError for a width that is none, a size out of range, or a font that is not installed.
    """
    least, most = SIZES
    if font_size is not None and not least <= font_size <= most:
        raise RequestError(f"--font-size {font_size:g} is out of range: {least:g} to {most:g} points")
    return Paper(
        None if width is None else inches(width), None if font is None else fonts.installed_family(font), font_size
    )


def inches(length: str | float) -> float:
    """A length as it is written, in inches. Raises RequestError where it is none, or no picture's."""
    match = LENGTH.fullmatch(str(length))
    value = float(match[1]) * UNITS.get(match[2].lower(), 0.0) if match else 0.0
    if not 0 < value <= WIDEST:
        raise RequestError(
            f'--width {quoted(str(length))}: write it as "8cm", "80mm", "3.15in" or "227pt", up to {WIDEST:g}in'
        )
    return value
