"""Text as a picture can hold it: harmless, cut to a length, wrapped to a width."""

import textwrap
import unicodedata
from collections.abc import Sequence

import numpy as np

from attncli.base.printable import printable, visible
from attncli.render.figures import fonts

LONGEST_LABEL = 16  # columns of a terminal: a Chinese character takes two
FILLED = 0.9  # of a line's width: small letters drawn as few dots come out up to a tenth wider
NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps words together where a title is wrapped


def clean(text: str) -> str:
    """Text from outside, as a file can hold it: no control characters, and nothing that XML forbids."""
    return printable(text).translate({0xFFFE: "�", 0xFFFF: "�"})


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def token_label(token: str) -> str:
    """A token as it stands beside a map."""
    return cut(clean(visible(token)), LONGEST_LABEL)


def cut(text: str, most: int) -> str:
    """`text`, or as much of its head as has room in `most` columns with "…"."""
    ends = np.cumsum([2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text])
    if not text or ends[-1] <= most:
        return text
    return text[: int(np.searchsorted(ends, most - 1, side="right"))] + "…"


def wrap_line(text: str, size: float, width: float, families: Sequence[str]) -> list[str]:
    """`text` in lines that are not wider than `width` inches."""
    lines = []
    for line in text.splitlines():
        [needed] = fonts.widths([line], size, families)
        room = FILLED * width
        columns = len(line) if needed <= room else int(len(line) * room / needed)
        lines += textwrap.wrap(line, max(columns, 1), break_on_hyphens=False)
    return [line.removesuffix(" ·").replace(NO_BREAK, " ") for line in lines]
