"""A canvas: the size and abilities of a terminal or a pipe, and text in a width of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len


@dataclass(frozen=True)
class Canvas:
    """A terminal, or a pipe as it is.

    width: its columns. colour: whether it has colour. unicode: whether blocks can be encoded. height: its lines; None
    for a pipe. typed: writes a command of a name and options, to type next; None where nobody reads it.
    """

    width: int
    colour: bool
    unicode: bool
    height: int | None = None
    typed: Callable[[str, Mapping[str, Any]], str | None] | None = None

    @property
    def strong(self) -> str:
        """The style of titles."""
        return "bold" if self.colour else ""

    @property
    def faint(self) -> str:
        """The style of what stands beside the matter."""
        return "dim" if self.colour else ""

    @property
    def ellipsis(self) -> str:
        """The mark at the end of a text that was cut."""
        return "…" if self.unicode else "~"

    def within(self, text: str, width: int) -> str:
        """`text` in at most `width` columns of a terminal; in a pipe as it is."""
        return text if self.height is None else cut(text, width, self.ellipsis)

    @property
    def queries_a_line(self) -> int:
        """Queries on a line of a picture: two where a character can be two squares, its ink above its paper."""
        return 2 if self.colour and self.unicode else 1


def to_width(text: str, width: int, canvas: Canvas) -> str:
    """`text` in exactly `width` columns: cut with an ellipsis, or filled up with spaces."""
    text = cut(text, width, canvas.ellipsis)
    return text + " " * (width - cell_len(text))


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` columns, with an ellipsis where it was longer.

    Not by rich's `set_cell_size`, which makes a space of half a wide character, and fails on some texts (two
    zero-width joiners before a wide character). Of no columns, nothing.
    """
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    while cell_len(text) > width - 1:
        text = text[:-1]
    return text + ellipsis
