"""Draw the heads that know syntactic heads: a bar per relation, and below a bar per layer.

A bar is the best head, and a mark is its baseline. Beside them stand the numbers of the terminal's tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.features.probe import (
    FEW,
    SAME,
    explain_trees,
    explain_verdicts,
    percent,
    relation_cells,
    title_of,
)
from attncli.record.display import HEAD_COLOURS
from attncli.report.figure import fonts
from attncli.report.figure.drawing import FAINT, INK, blank, draw_lines, drawing, write
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, MARGIN

MOST_ROWS = 60
TITLE, NOTE, LABEL = 11.0, 9.0, 9.0  # points

# Inches.
ROW = 0.19
BAR, MARK = 0.6 * ROW, 0.95 * ROW  # the height of a bar, and of a mark
WHOLE = 3.0  # a bar of 100%
COLUMN_GAP = 0.18

FOUND, COMPARED, QUARTERS = HEAD_COLOURS[0], HEAD_COLOURS[1], "#e4e4e4"
COLUMN_COLOURS = (FOUND, FOUND, FOUND, COMPARED, COMPARED, FAINT, INK)  # of the headings: they are the legend
GREY = f"in grey: {FEW}"
UNSURE = "#c4c4c4"  # a bar with too few words


@dataclass(frozen=True)
class Row:
    """A row: its label, its bar and its mark as shares (None for none), and its words.

    interval: of the bar. sure: False if the bar has too few words.
    """

    label: str
    bar: float | None
    mark: float | None
    texts: list[str]
    interval: Sequence[float] | None = None
    sure: bool = True


@dataclass(frozen=True)
class Block:
    """Rows under the headings of the labels and of each column of words."""

    label: str
    columns: list[str]
    rows: list[Row]

    def column(self, place: int) -> list[str]:
        return [self.columns[place], *(row.texts[place] for row in self.rows)]


def draw_bars(document: dict[str, Any]) -> Figure:
    """Draw the accuracy of each relation's best head as a bar, with a line for its interval, and grey if there are too
    few words; the accuracy of the best offset as a mark; below, the trees by layer.

    Of more than 60 relations the most frequent are drawn, with a note. A Notice names characters that no font on this
    machine has.
    """
    blocks = [_relation_block(document), _tree_block(document)]
    title = clean(" · ".join(title_of(document, folders=False)))
    rest = ([SAME] if document["test"] is None else []) + _left_out(document["relations"])
    end = [clean(line) for line in (*explain_verdicts(document), GREY, explain_trees(document))]
    labels = [text for block in blocks for text in (block.label, *(row.label for row in block.rows))]
    columns = [[text for block in blocks for text in block.column(place)] for place in range(len(blocks[0].columns))]
    families = fonts.families([title, *rest, *end, *labels, *(text for column in columns for text in column)])

    def widest(texts: Sequence[str]) -> float:
        return max(fonts.widths(texts, LABEL, families))

    bars = MARGIN + widest([*labels, *(f"{block.label} 0%" for block in blocks)]) + LABEL_GAP
    rights = []
    right = bars + WHOLE
    for column in columns:
        right += COLUMN_GAP + widest(column)
        rights.append(right)
    width = right + MARGIN
    titles = wrap_line(title, TITLE, width - 2 * MARGIN, families)
    notes = [line for text in rest for line in wrap_line(text, NOTE, width - 2 * MARGIN, families)]
    ends = [line for text in end for line in wrap_line(text, NOTE, width - 2 * MARGIN, families)]
    tops = [MARGIN + LINE * (TITLE * len(titles) + NOTE * len(notes)) + GAP]
    for block in blocks:
        tops.append(tops[-1] + ROW * (1 + len(block.rows)) + 2 * GAP)
    height = tops[-1] - GAP + LINE * NOTE * len(ends) + MARGIN

    with drawing(families):
        figure, canvas = blank(width, height)
        draw_lines(canvas, MARGIN, titles, TITLE, INK)
        draw_lines(canvas, MARGIN + LINE * TITLE * len(titles), notes, NOTE, FAINT)
        for block, top in zip(blocks, tops, strict=False):
            _draw_block(canvas, block, bars, rights, top)
        draw_lines(canvas, tops[-1] - GAP, ends, NOTE, FAINT)
    return figure


def _relation_block(document: dict[str, Any]) -> Block:
    rows = [
        Row(
            token_label(row["relation"]),
            row["accuracy"],
            row["offset_accuracy"],
            _words_of(row),
            None if row["interval"]["low"] is None else [row["interval"]["low"], row["interval"]["high"]],
            row["verdict"] != FEW,
        )
        for row in document["relations"][:MOST_ROWS]
    ]
    columns = ["best head", "accuracy", "interval", "best offset", "accuracy", "words", "verdict"]
    return Block("relation", columns, rows)


def _words_of(row: dict[str, Any]) -> list[str]:
    """Return the words of a relation; its head and direction share a column."""
    head, direction, *rest = relation_cells(row)
    return [f"{head} {direction.replace('->', ' → ')}", *rest]


def _tree_block(document: dict[str, Any]) -> Block:
    rows = [
        Row(
            f"layer {row['layer']}",
            row["best_head_uuas"],
            row["uuas"],
            [
                f"{row['layer']}.{row['best_head']}",
                percent(row["best_head_uuas"]),
                "",
                "",
                percent(row["uuas"]),
                "",
                "",
            ],
        )
        for row in document["trees"]["layers"]
    ]
    return Block("trees", ["best head", "its tree", "", "mean map", "its tree", "", ""], rows)


def _left_out(relations: Sequence[dict[str, Any]]) -> list[str]:
    """Return the note for relations that are not drawn."""
    if len(relations) <= MOST_ROWS:
        return []
    return [f"the {MOST_ROWS} most frequent of {len(relations)} rows"]


def _draw_block(canvas: Axes, block: Block, left: float, rights: Sequence[float], top: float) -> None:
    """Draw the headings, a grid in quarters, and the rows: label, bar from `left`, mark, words up to `rights`."""
    end = top + ROW * (1 + len(block.rows))
    for quarter in range(5):
        x = left + WHOLE * quarter / 4
        canvas.plot([x, x], [top + ROW, end], color=QUARTERS, linewidth=0.6, zorder=0)
        write(canvas, x, top + ROW / 2, f"{25 * quarter}%", 0.8 * LABEL, color=FAINT)
    write(canvas, MARGIN, top + ROW / 2, block.label, LABEL, ha="left", color=FAINT)
    for heading, right, colour in zip(block.columns, rights, COLUMN_COLOURS, strict=True):
        write(canvas, right, top + ROW / 2, heading, LABEL, ha="right", color=colour)
    for place, row in enumerate(block.rows):
        y = top + ROW * (place + 1.5)
        ink = INK if row.sure else FAINT
        write(canvas, left - LABEL_GAP, y, row.label, LABEL, ha="right", color=ink)
        canvas.barh(y, WHOLE * (row.bar or 0), BAR, left=left, color=FOUND if row.sure else UNSURE)
        if row.interval is not None:
            canvas.plot([left + WHOLE * end for end in row.interval], [y, y], color=ink, linewidth=0.8)
        if row.mark is not None:
            x = left + WHOLE * row.mark
            canvas.plot([x, x], [y - MARK / 2, y + MARK / 2], color=COMPARED, linewidth=2.0, solid_capstyle="butt")
        for text, right in zip(row.texts, rights, strict=True):
            write(canvas, right, y, text, LABEL, ha="right", color=ink)
