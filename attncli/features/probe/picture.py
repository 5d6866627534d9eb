"""Draw the heads that know syntactic heads: a bar per relation, and below a bar per layer.

A bar is the best head, and a mark is its baseline. Beside them stand the numbers of the terminal's tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from attncli.features.probe import FEW, SAME, percent, relation_cells
from attncli.record.display import HEAD_COLOURS
from attncli.report.figure import fonts, title_of
from attncli.report.figure.drawing import FAINT, INK, blank, draw_lines, drawing, write
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, bar_length, left_out_note
from attncli.report.paper import STANDARD, Paper, larger, too_narrow

MOST_ROWS = 60

# Of the height of a row.
ROW = 1.2  # of a line of text
BAR, MARK = 0.6, 0.95

# Inches.
WHOLE, SHORTEST = 3.0, 0.9  # a bar of 100%; below it quarters have no room for their numbers
COLUMN_GAP = 0.18  # for text of the usual size

FOUND, COMPARED, QUARTERS = HEAD_COLOURS[0], HEAD_COLOURS[1], "#e4e4e4"
COLUMN_COLOURS = (FOUND, FOUND, FOUND, COMPARED, COMPARED, FAINT, INK)  # of the headings: they are the legend
MEANING = f"bar: best head, line: its 95% interval, mark: best offset, or the mean map; in grey: {FEW}"
LEAVING = (5, 2, 4, 1, 3, 6)  # columns of words that a narrow picture does without, in this order
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
class _Block:
    """Rows under the headings of the labels and of each column of words."""

    label: str
    columns: list[str]
    rows: list[Row]

    def column(self, place: int) -> list[str]:
        return [self.columns[place], *(row.texts[place] for row in self.rows)]


def draw_bars(document: dict[str, Any], title: Sequence[str], paper: Paper) -> Figure:
    """Draw the accuracy of each relation's best head as a bar, with a line for its interval, and grey if there are too
    few words; the accuracy of the best offset as a mark; below, the trees by layer.

    Of more than 60 relations the most frequent are drawn, with a note. A Notice names characters that no font on this
    machine has. Raises RequestError for too small a width.
    """
    blocks = [_relation_block(document), _tree_block(document)]
    heading = clean(title_of(title))
    count = len(document["relations"])
    notes = [MEANING]
    if document["test"] is None:
        notes.append(SAME)
    if count > MOST_ROWS:
        notes.append(f"the {MOST_ROWS} most frequent of {count} rows")
    labels = [text for block in blocks for text in (block.label, *(row.label for row in block.rows))]
    columns = [[text for block in blocks for text in block.column(place)] for place in range(len(blocks[0].columns))]
    families = fonts.families([heading, *notes, *labels, *(text for column in columns for text in column)], paper.font)
    size, margin, gap = paper.note, paper.margin, COLUMN_GAP * paper.label / STANDARD

    def widest(texts: Sequence[str]) -> float:
        return max(fonts.widths(texts, size, families))

    widths = [widest(column) for column in columns]
    bars = margin + widest([*labels, *(f"{block.label} 0%" for block in blocks)]) + LABEL_GAP
    shown = list(range(len(columns)))

    def width_of(whole: float) -> float:
        return bars + whole + sum(gap + widths[place] for place in shown) + margin + half

    half = widest(["100%"]) / 2 if paper.width is not None else 0.0
    for leaving in (None, *LEAVING):
        shown = [place for place in shown if place != leaving]
        if (whole := bar_length(width_of, paper, SHORTEST, WHOLE)) is not None:
            break
    else:
        raise too_narrow(paper, larger(paper, width_of(SHORTEST)))
    names = [blocks[0].columns[place] for place in range(len(columns)) if place not in shown]
    notes += filter(None, [left_out_note(names)])
    rights = [bars + whole + half + sum(gap + widths[place] for place in shown[: at + 1]) for at in range(len(shown))]
    width = width_of(whole) if paper.width is None else paper.width
    titles = wrap_line(heading, paper.heading, width - 2 * margin, families)
    lines = [line for text in notes for line in wrap_line(text, size, width - 2 * margin, families)]
    row = ROW * LINE * size
    tops = [margin + LINE * (paper.heading * len(titles) + size * len(lines)) + GAP]
    for block in blocks:
        tops.append(tops[-1] + row * (1 + len(block.rows)) + 2 * GAP)

    with drawing(families):
        figure, canvas = blank(width, tops[-1] - 2 * GAP + margin)
        draw_lines(canvas, margin, margin, titles, paper.heading, INK)
        draw_lines(canvas, margin, margin + LINE * paper.heading * len(titles), lines, size, FAINT)
        for block, top in zip(blocks, tops, strict=False):
            bottom, middle = top + row * (1 + len(block.rows)), top + row / 2
            for quarter in range(0, 5, 1 if whole >= WHOLE / 2 else 2):
                x = bars + whole * quarter / 4
                canvas.plot([x, x], [top + row, bottom], color=QUARTERS, linewidth=0.6, zorder=0)
                write(canvas, x, middle, f"{25 * quarter}%", size, color=FAINT)
            write(canvas, margin, middle, block.label, size, ha="left", color=FAINT)
            for place, right in zip(shown, rights, strict=True):
                write(canvas, right, middle, block.columns[place], size, ha="right", color=COLUMN_COLOURS[place])
            for number, one in enumerate(block.rows):
                y, ink = top + row * (number + 1.5), INK if one.sure else FAINT
                write(canvas, bars - LABEL_GAP, y, one.label, size, ha="right", color=ink)
                canvas.barh(y, whole * (one.bar or 0), BAR * row, left=bars, color=FOUND if one.sure else UNSURE)
                if one.interval is not None:
                    canvas.plot([bars + whole * end for end in one.interval], [y, y], color=ink, linewidth=0.8)
                if one.mark is not None:
                    x, reach = bars + whole * one.mark, MARK * row / 2
                    canvas.plot([x, x], [y - reach, y + reach], color=COMPARED, linewidth=2.0, solid_capstyle="butt")
                for place, right in zip(shown, rights, strict=True):
                    write(canvas, right, y, one.texts[place], size, ha="right", color=ink)
    return figure


def _relation_block(document: dict[str, Any]) -> _Block:
    rows = []
    for row in document["relations"][:MOST_ROWS]:
        head, direction, *rest = relation_cells(row)  # head and direction share a column
        words = [f"{head} {direction.replace('->', ' → ')}", *rest]
        interval = None if row["interval"]["low"] is None else list(row["interval"].values())
        label, sure = token_label(row["relation"]), row["verdict"] != FEW
        rows.append(Row(label, row["accuracy"], row["offset_accuracy"], words, interval, sure))
    columns = ["best head", "accuracy", "interval", "best offset", "accuracy", "words", "verdict"]
    return _Block("relation", columns, rows)


def _tree_block(document: dict[str, Any]) -> _Block:
    rows = []
    for row in document["trees"]["layers"]:
        best, mean = percent(row["best_head_uuas"]), percent(row["uuas"])
        words = [f"{row['layer']}.{row['best_head']}", best, "", "", mean, "", ""]
        rows.append(Row(f"layer {row['layer']}", row["best_head_uuas"], row["uuas"], words))
    return _Block("trees", ["best head", "its tree", "", "mean map", "its tree", "", ""], rows)
