"""What a head's scores are the sum of, in the terminal: a signed map of each part, blue below 0 and red above."""

from collections.abc import Sequence

import numpy as np
from rich.text import Text

from attncli.analysis.terms import SCORE, score_terms
from attncli.base.arrays import Doubles
from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.one_head import query_labels

NUMBER = 7  # columns of a cell with its number in it: " -12.34"
CELLS = (NUMBER, 2, 1)  # the widest that fits is taken
MARKED = 1 / 3  # of the largest number, from which on a cell without colour has a sign
BELOW, ABOVE = (33, 102, 172), (178, 24, 43)  # the ends of matplotlib's RdBu_r, over black


def terms_view(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The score and its parts, each with its own scale from the number that is largest in size; hidden keys are empty.

    Raises RequestError as `score_terms` does.
    """
    parts = score_terms(record)
    labels = query_labels(record, canvas)
    names = [printable(name) for name in parts]
    lines = [Text(f"{SCORE} = {' + '.join(names[1:])}", style=canvas.strong)]
    for name, part in zip(names, parts.values(), strict=True):
        most = float(np.nanmax(np.abs(part), initial=0.0)) if not np.isnan(part).all() else 0.0
        lines += [Text(), Text(f"{name}  from -{most:.2f} to {most:.2f}", style=canvas.strong)]
        lines += rows(part, most, labels, canvas)
    return lines


def rows(part: Doubles, most: float, labels: Sequence[str], canvas: Canvas) -> list[Text]:
    """A row a query; cells without room for a number have their colour or, where there is none, their sign."""
    room = canvas.width - len(labels[0]) - 1
    wide = next((cell for cell in CELLS if cell * part.shape[1] <= room), CELLS[-1])
    lines = []
    if wide == NUMBER:
        numbers = "".join(f"{key:>{wide}}" for key in range(part.shape[1]))
        lines.append(Text(" " * (len(labels[0]) + 1) + numbers, style=canvas.faint))
    for label, row in zip(labels, part.tolist(), strict=True):
        line = Text(f"{label} ")
        for number in row:
            line.append(
                cell(number, most, wide, canvas), "" if number != number else ground(number / (most or 1), canvas)
            )
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
