"""Small maps under captions, and several of them beside each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.text import Text

from attncli.base.arrays import Floats
from attncli.record import AttentionRecord
from attncli.render.pooling import pool
from attncli.render.terminal.canvas import Canvas, to_width
from attncli.render.terminal.shades import HATCH, cell_text, colour, ink, shade

NARROWEST = 20  # columns of a caption, at the least
LINES = 32  # a small map is at most so many lines high
APART = 2  # columns between maps
NUMBERS = 6  # columns before a map for the numbers of two queries: "62,63 "
POOLED = "a cell is the largest of the weights that fall into it"


@dataclass(frozen=True)
class PanelSize:
    """How large a small map may be: its columns and lines, and its caption's width, which may be more.

    numbered: there is room for the numbers of its queries and keys.
    """

    columns: int
    width: int
    lines: int = LINES
    numbered: bool = False

    @classmethod
    def of(cls, record: AttentionRecord, width: int, lines: int = LINES, caption: int = NARROWEST) -> "PanelSize":
        """Of a record's maps, in at most `width` columns; with room for so many columns of a caption."""
        numbered = len(record.keys) + NUMBERS <= width
        columns = min(len(record.keys), width)
        taken = columns + NUMBERS if numbered else columns
        return cls(columns, min(max(taken, caption), width), lines, numbered)

    def pools(self, record: AttentionRecord, canvas: Canvas) -> bool:
        """Whether a cell stands for several weights."""
        return self.columns < len(record.keys) or self.lines * canvas.queries_a_line < len(record.tokens)


def panel(caption: str, weights: Floats, size: PanelSize, canvas: Canvas, style: str = "") -> list[Text]:
    """A small map under its caption; with the numbers of its tokens where each has a place of its own.

    Of keys the last digit stands above their column; of queries the numbers before their line, of both where a line is
    two of them.
    """
    drawn = picture(weights, canvas, size.columns, size.lines)
    queries, keys = weights.shape
    if size.numbered and keys <= size.columns and queries <= size.lines * canvas.queries_a_line:
        step = canvas.queries_a_line
        numbers = [",".join(map(str, range(start, min(start + step, queries)))) for start in range(0, queries, step)]
        drawn = [
            Text(f"{one:>{NUMBERS - 1}} ", canvas.faint).append(line) for one, line in zip(numbers, drawn, strict=True)
        ]
        digits = "".join(str(key % 10) for key in range(keys))
        drawn.insert(0, Text(" " * NUMBERS + digits, canvas.faint))
    return [Text(to_width(caption, size.width, canvas), style=style), *drawn]


def picture(weights: Floats, canvas: Canvas, columns: int, lines: int) -> list[Text]:
    """A map as it is drawn, as a picture: with colour two queries a line, without it one; pooled where it is too
    large.
    """
    rows = pool(weights, lines * canvas.queries_a_line, columns).tolist()
    if canvas.queries_a_line == 2:
        return [half_blocks(upper, lower) for upper, lower in zip_longest(rows[::2], rows[1::2])]
    if canvas.colour:
        return [Text.assemble(*(cell_text(weight, 1, canvas) for weight in row)) for row in rows]
    return [Text("".join(shade(weight, canvas.unicode) for weight in row)) for row in rows]


def half_blocks(upper: Sequence[float], lower: Sequence[float] | None) -> Text:
    """Two queries in one line; the last may be without a fellow."""
    if lower is None:
        return Text.assemble(*(("▀", colour(top)) for top in upper))
    return Text.assemble(*(half_block(top, bottom) for top, bottom in zip(upper, lower, strict=True)))


def half_block(top: float, bottom: float) -> tuple[str, str]:
    """Two weights, one above the other, in one character, and its style; hatched where both are hidden."""
    if math.isnan(top) and math.isnan(bottom):
        return HATCH, f"{ink(top)} on {colour(top)}"
    return "▀", f"{colour(top)} on {colour(bottom)}"


def in_rows(panels: Sequence[list[Text]], width: int, canvas: Canvas) -> list[Text]:
    """Panels of `width` columns side by side as far as the canvas reaches, an empty line after every row of them."""
    across = max(1, (canvas.width + APART) // (width + APART))
    rows = [panels[start : start + across] for start in range(0, len(panels), across)]
    return [line for row in rows for line in (*beside(row, width), Text())]


def beside(panels: Sequence[list[Text]], width: int) -> list[Text]:
    """Panels of equal height side by side: lines, and not rich's `Columns`, which would leave spaces at their ends."""
    lines = []
    for parts in zip(*panels, strict=True):
        for part in parts:
            part.pad_right(width - part.cell_len)
        lines.append(Text(" " * APART).join(parts))
        lines[-1].rstrip()
    return lines
