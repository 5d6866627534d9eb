"""What is drawn on in a terminal, and text in a width of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len


@dataclass(frozen=True)
class Canvas:
    """Columns, whether there is colour, whether blocks can be encoded; and lines, where there is an end of them."""

    width: int
    colour: bool
    unicode: bool
    height: int | None = None

    @property
    def strong(self) -> str:
        """The style of titles."""
        return "bold" if self.colour else ""

    @property
    def faint(self) -> str:
        """The style of what stands beside the matter."""
        return "dim" if self.colour else ""

    @property
    def queries_a_line(self) -> int:
        """Of a picture: two where a character can be two squares, the upper in its ink and the lower in its paper."""
        return 2 if self.colour and self.unicode else 1


def to_width(text: str, width: int, canvas: Canvas) -> str:
    """`text` in exactly `width` columns: cut with an ellipsis, or filled up with spaces.

    Not by rich's `set_cell_size`, which makes a space of half a wide character, and fails on some texts (two
    zero-width joiners before a wide character).
    """
    if cell_len(text) > width:
        while cell_len(text) > width - 1:
            text = text[:-1]
        text += "…" if canvas.unicode else "~"
    return text + " " * (width - cell_len(text))


def joined(parts: Sequence[str], between: str, width: int) -> list[str]:
    """Parts in as few lines as fit the width; none of them is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1] + between + part) <= width:
            lines[-1] += between + part
        else:
            lines.append(part)
    return lines
