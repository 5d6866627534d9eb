"""A canvas: the size and abilities of a terminal or a pipe, and functions that cut text to a width."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len


@dataclass(frozen=True)
class Canvas:
    """A terminal or a pipe.

    width: its columns. colour: True if it shows colour. unicode: True if it can encode blocks. height: its lines; None
    for a pipe. typed: writes the next command from its name and options; None if no one reads it. light: True if its
    background is light.
    """

    width: int
    colour: bool
    unicode: bool
    height: int | None = None
    typed: Callable[[str, Mapping[str, Any]], str | None] | None = None
    light: bool = False

    @property
    def strong(self) -> str:
        """The style of titles."""
        return "bold" if self.colour else ""

    @property
    def faint(self) -> str:
        """The style of secondary text."""
        return "dim" if self.colour else ""

    @property
    def ellipsis(self) -> str:
        """The mark at the end of a text that was cut."""
        return "…" if self.unicode else "~"

    def within(self, text: str, width: int) -> str:
        """Cut a text to `width` columns of a terminal; return it unchanged for a pipe."""
        return text if self.height is None else cut(text, width, self.ellipsis)

    @property
    def queries_a_line(self) -> int:
        """The queries on a line of a picture: two if a character can show two coloured squares, else one."""
        return 2 if self.colour and self.unicode else 1


LIGHT_NUMBERS = ("7", "15")  # light grey and white among the 16 colours of a terminal


def is_light_terminal() -> bool:
    """Return True if the terminal says in COLORFGBG that its background is light: "0;15"."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_NUMBERS


def to_width(text: str, width: int, canvas: Canvas) -> str:
    """Cut a text with an ellipsis, or fill it up with spaces, to exactly `width` columns."""
    text = cut(text, width, canvas.ellipsis)
    return text + " " * (width - cell_len(text))


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut a text to at most `width` columns, with an ellipsis if it was longer. Return "" for no columns.

    rich's `set_cell_size` replaces half of a wide character by a space, and fails on some texts (two zero-width joiners
    before a wide character).
    """
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    while cell_len(text) > width - 1:
        text = text[:-1]
    return text + ellipsis
