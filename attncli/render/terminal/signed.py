"""Signed numbers in the terminal, as maps on black: blue below 0, red above, from the number largest in size."""

import math
from collections.abc import Sequence

import numpy as np
from rich.text import Text

from attncli.base.arrays import Doubles
from attncli.render.palette import ABOVE, BELOW
from attncli.render.terminal.canvas import Canvas

NUMBER = 7  # columns of a cell with its number in it: " -12.34"
CELLS = (NUMBER, 2, 1)  # the widest that fits is taken
MARKED = 1 / 3  # of the largest number, from which on a cell without colour has a sign


def largest(part: Doubles) -> float:
    """The largest size of its numbers; 0 where all are hidden, which is NaN."""
    return float(np.nanmax(np.abs(part), initial=0.0)) if not np.isnan(part).all() else 0.0


def in_units(most: float) -> tuple[float, str]:
    """A unit in which numbers of this size are read without zeros in front, 1 or 0.01 and so on, and what is said of
    it: nothing where it is 1.
    """
    if not 0 < most < 1:
        return 1.0, ""
    places = min(math.floor(-math.log10(most)) + 2, 12)
    return 10.0**-places, f"in units of 1e-{places}"


def signed_map(
    part: Doubles, most: float, labels: Sequence[str], canvas: Canvas, keys: Sequence[int] | None = None
) -> list[Text]:
    """A row of `[query, key]` a line, after its label.

    Cells without room for a number have their colour or, where there is none, their sign. most: as `largest` gives it.
    keys: the numbers of the columns, where they are not all keys.
    """
    room = canvas.width - len(labels[0]) - 1
    wide = next((cell for cell in CELLS if cell * part.shape[1] <= room), CELLS[-1])
    lines = []
    if wide == NUMBER:
        numbers = "".join(f"{key:>{wide}}" for key in (range(part.shape[1]) if keys is None else keys))
        lines.append(Text(" " * (len(labels[0]) + 1) + numbers, style=canvas.faint))
    for label, row in zip(labels, part.tolist(), strict=True):
        line = Text(f"{label} ")
        for number in row:
            line.append(
                cell(number, most, wide, canvas), "" if number != number else ground(number / (most or 1), canvas)
            )
        if not canvas.colour:  # a cell with a colour is made of spaces
            line.rstrip()
        lines.append(line)
    return lines


def cell(number: float, most: float, wide: int, canvas: Canvas) -> str:
    """What stands in a cell; nothing of what is hidden, which is NaN."""
    if number != number:
        return " " * wide
    if wide == NUMBER:
        return f"{number:>{wide}.2f}"
    if canvas.colour:
        return " " * wide
    sign = "+" if number > 0 else "-"
    return f"{sign if abs(number) > MARKED * most else '.':>{wide}}"


def ground(share: float, canvas: Canvas) -> str:
    """The style of a cell, from -1 to 1; none where there is no colour."""
    if not canvas.colour:
        return ""
    red, green, blue = (round(abs(share) * one) for one in (ABOVE if share > 0 else BELOW))
    return f"white on rgb({red},{green},{blue})"
