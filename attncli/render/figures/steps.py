"""One row of one head, step by step, as a picture; made of what `explain --json` prints.

A row a key; the steps are columns of bars beside each other, each bar with its number, as the terminal has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.base.palette import HEAD_COLOURS
from attncli.render.captions import steps
from attncli.report.figure import fonts
from attncli.report.figure.drawing import FAINT, INK, blank, draw_lines, drawing, write
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, MARGIN

MOST_ROWS = 60
TITLE, NOTE, LABEL = 11.0, 9.0, 9.0  # points

# Inches.
ROW = 0.19
BAR, LONGEST = 0.62 * ROW, 0.7  # a bar's height, and what a column's bars take from the lowest to the highest number
NUMBER_GAP, COLUMN_GAP = 0.07, 0.18

SCORES, WEIGHTS, VALUES = HEAD_COLOURS[0], HEAD_COLOURS[1], HEAD_COLOURS[2]
HIDDEN_BAR, BAND = "#d8d8d8", "#fff1cc"


@dataclass(frozen=True)
class Column:
    """One step: its heading, its number by key and as written, what stands in the sum's row, and its colour."""

    heading: str
    values: list[float]
    texts: list[str]
    total: str
    colour: str


def steps_figure(document: dict[str, Any]) -> Figure:
    """The row as bars: q·k, divided, the terms of positions where there are any, exp, weight, |v|, |weight v|, each
    column with a scale of its own; the last two where values are known.

    The query's own row has a band of colour; masked keys are faint. Of more than 60 keys those with the largest
    weights are drawn, in the order of the text, and the picture says so.

    A Notice names characters that no font on this machine has.
    """
    shown = strongest_keys(document["keys"])
    labels = [f"{key['index']} {token_label(key['shown'])}" for key in shown]
    columns = step_columns(document, shown)
    title, *notes = (clean(line) for line in steps.title(document).split("\n"))
    notes += left_out(document["keys"], shown)
    end = [clean(line) for line in steps.end(document).split("\n")]
    families = fonts.families([*labels, title, *notes, *end, *(column.heading for column in columns)])

    def widest(texts: Sequence[str], size: float = LABEL) -> float:
        return max(fonts.widths(texts, size, families))

    rows = MARGIN + widest([*labels, "sum"]) + LABEL_GAP  # where the bars begin
    widths = [
        max(LONGEST + NUMBER_GAP + widest(column.texts), widest([column.heading, column.total])) for column in columns
    ]
    lefts = [rows + COLUMN_GAP + sum(widths[:place]) + COLUMN_GAP * place for place in range(len(columns))]
    width = max(lefts[-1] + widths[-1], MARGIN + widest(notes + end, NOTE)) + MARGIN
    titles = wrap_line(title, TITLE, width - 2 * MARGIN, families)
    headings = MARGIN + LINE * (TITLE * len(titles) + NOTE * len(notes)) + GAP
    top = headings + LINE * LABEL + LABEL_GAP
    bottom = top + ROW * len(shown)
    height = bottom + ROW + GAP + LINE * NOTE * len(end) + MARGIN

    with drawing(families):
        figure, canvas = blank(width, height)
        draw_lines(canvas, MARGIN, titles, TITLE, INK)
        draw_lines(canvas, MARGIN + LINE * TITLE * len(titles), notes, NOTE, FAINT)
        draw_lines(canvas, bottom + ROW + GAP, end, NOTE, INK)
        own = None if document.get("kind") == "cross" else document["query"]["index"]
        draw_keys(canvas, shown, labels, own, rows, top)
        canvas.plot([MARGIN, width - MARGIN], [bottom, bottom], color=FAINT, linewidth=0.6)
        allowed = [key["allowed"] for key in shown]
        for column, left, wide in zip(columns, lefts, widths, strict=True):
            write(canvas, left, headings + LINE * LABEL / 2, column.heading, LABEL, ha="left")
            draw_column(canvas, column, allowed, left, left + wide, top)
    return figure


def strongest_keys(keys: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `MOST_ROWS` keys, those with the largest weights, in the order of the text."""
    strongest = sorted(keys, key=lambda key: -key["weight"])[:MOST_ROWS]
    return sorted(strongest, key=lambda key: key["index"])


def left_out(keys: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]) -> list[str]:
    """What is said where not all keys are drawn."""
    if len(shown) == len(keys):
        return []
    share = sum(key["weight"] for key in shown)
    return [
        f"the {len(shown)} of {len(keys)} keys that have the largest weights, together {share:.3f}; sums are of all"
    ]


def step_columns(document: dict[str, Any], shown: Sequence[dict[str, Any]]) -> list[Column]:
    """The steps, with the numbers written as in the terminal's table."""

    def column(heading: str, name: str, colour: str, total: str = "", digits: int = 3) -> Column:
        values = [key[name] for key in shown]
        return Column(heading, values, [f"{value:.{digits}f}" for value in values], total, colour)

    raised = column(steps.raised_heading(document), "raised", WEIGHTS, f"{document['total']:.4f}", digits=4)
    raised.texts[:] = [text if key["allowed"] else steps.HIDDEN for key, text in zip(shown, raised.texts, strict=True)]
    weights = sum(key["weight"] for key in document["keys"])
    places = [key["index"] for key in shown]
    columns = [
        *(
            Column(step.heading, [step.values[at] for at in places], [step.texts[at] for at in places], "", SCORES)
            for step in steps.score_steps(document)
        ),
        raised,
        column("/ sum = weight", "weight", WEIGHTS, f"{weights:.3f}"),
    ]
    if "output" in document:
        columns.append(column("|v|", "value_norm", VALUES))
        columns.append(column("|weight v|", "contribution", VALUES, f"|Σ| = {document['output_norm']:.3f}"))
    return columns


def draw_keys(
    canvas: Axes, shown: Sequence[dict[str, Any]], labels: Sequence[str], query: int | None, right: float, top: float
) -> None:
    """The keys' labels, and a band of colour along the row of the query's own key."""
    left, end = canvas.get_xlim()
    for place, (key, label) in enumerate(zip(shown, labels, strict=True)):
        y = top + ROW * place
        if key["index"] == query:
            wide = end - left - MARGIN
            canvas.add_patch(Rectangle((left + MARGIN / 2, y), wide, ROW, facecolor=BAND, linewidth=0))
        write(canvas, right, y + ROW / 2, label, LABEL, ha="right", color=INK if key["allowed"] else FAINT)
    write(canvas, right, top + ROW * (len(shown) + 0.5), "sum", LABEL, ha="right", color=FAINT)


def draw_column(canvas: Axes, column: Column, allowed: Sequence[bool], left: float, right: float, top: float) -> None:
    """The bars of one step from a line at 0, and right of them their numbers."""
    least, most = min(0.0, *column.values), max(0.0, *column.values)
    unit = LONGEST / ((most - least) or 1.0)
    zero = left - least * unit
    middles = [top + ROW * (place + 0.5) for place in range(len(allowed))]
    canvas.barh(
        middles,
        [value * unit for value in column.values],
        BAR,
        left=zero,
        color=[column.colour if may else HIDDEN_BAR for may in allowed],
    )
    canvas.plot([zero, zero], [top, top + ROW * len(allowed)], color=FAINT, linewidth=0.6)
    for y, text, may in zip(middles, column.texts, allowed, strict=True):
        write(canvas, right, y, text, LABEL, ha="right", color=INK if may else FAINT)
    write(canvas, right, middles[-1] + ROW, column.total, LABEL, ha="right")
