"""Draw shares as bars: a bar per row, with its interval, and a mark for what it is compared with.

Columns of words are beside them.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from attncli.record.display import HEAD_COLOURS
from attncli.report.figure import fonts, title_of
from attncli.report.figure.drawing import FAINT, INK, blank, draw_heading, drawing, write
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, bar_length, left_out_note
from attncli.report.paper import STANDARD, Paper, larger, too_narrow
from attncli.report.parts import BarBlock, three_digits

# Of the height of a row.
ROW = 1.2  # of a line of text
BAR, MARK = 0.6, 0.95

# Inches.
WHOLE, SHORTEST = 3.0, 0.9  # a bar of 100%; below it quarters have no room for their numbers
COLUMN_GAP = 0.18  # for text of the usual size

FOUND, COMPARED, QUARTERS = HEAD_COLOURS[0], HEAD_COLOURS[1], "#e4e4e4"
HEADINGS = {"bar": FOUND, "mark": COMPARED, "faint": FAINT, "": INK}  # their colours: they are the legend
UNSURE = "#c4c4c4"  # a bar of a row that is not sure


def draw_shares(
    blocks: Sequence[BarBlock],
    about: Sequence[str],
    drop_order: Sequence[int],
    notes: Sequence[str],
    title: Sequence[str],
    paper: Paper,
    most: float | None = None,
) -> Figure:
    """Draw a bar per row, grey if it is not sure, with a line for its interval, and a mark.

    about, drop_order, most: as in `attncli.report.shares.ShareBars`.

    A Notice names characters that no font on this machine has. Raises RequestError for too small a width.
    """
    heading = clean(title_of(title))
    labels = [text for block in blocks for text in (block.label, *(token_label(row.label) for row in block.rows))]
    columns = [
        [text for block in blocks for text in (block.columns[place], *(row.texts[place] for row in block.rows))]
        for place in range(len(about))
    ]
    families = fonts.families([heading, *notes, *labels, *(text for column in columns for text in column)], paper.font)
    size, margin, gap = paper.note, paper.margin, COLUMN_GAP * paper.label / STANDARD

    def widest(texts: Sequence[str]) -> float:
        return max(fonts.widths(texts, size, families))

    widths = [widest(column) for column in columns]
    bars = margin + widest([*labels, *(f"{block.label} 0%" for block in blocks)]) + LABEL_GAP
    shown = list(range(len(columns)))

    def width_of(whole: float) -> float:
        return bars + whole + sum(gap + widths[place] for place in shown) + margin + half

    half = widest(["100%"]) / 2  # of the number above the end of a bar
    for dropped in (None, *drop_order):
        shown = [place for place in shown if place != dropped]
        if (whole := bar_length(width_of, paper, SHORTEST, WHOLE)) is not None:
            break
    else:
        raise too_narrow(paper, larger(paper, width_of(SHORTEST)))
    names = [blocks[0].columns[place] for place in range(len(columns)) if place not in shown]
    notes = [*notes, *filter(None, [left_out_note(names)])]
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
        draw_heading(canvas, paper, titles, lines)
        for block, top in zip(blocks, tops, strict=False):
            bottom, middle = top + row * (1 + len(block.rows)), top + row / 2
            for quarter in range(0, 5, 1 if whole >= WHOLE / 2 else 2):
                x = bars + whole * quarter / 4
                canvas.plot([x, x], [top + row, bottom], color=QUARTERS, linewidth=0.6, zorder=0)
                tick = f"{25 * quarter}%" if most is None else three_digits(most * quarter / 4)
                write(canvas, x, middle, tick, size, color=FAINT)
            write(canvas, margin, middle, block.label, size, ha="left", color=FAINT)
            for place, right in zip(shown, rights, strict=True):
                write(canvas, right, middle, block.columns[place], size, ha="right", color=HEADINGS[about[place]])
            for number, one in enumerate(block.rows):
                y, ink = top + row * (number + 1.5), INK if one.sure else FAINT
                write(canvas, bars - LABEL_GAP, y, token_label(one.label), size, ha="right", color=ink)
                canvas.barh(y, whole * (one.bar or 0), BAR * row, left=bars, color=FOUND if one.sure else UNSURE)
                if one.interval is not None:
                    canvas.plot([bars + whole * end for end in one.interval], [y, y], color=ink, linewidth=0.8)
                if one.mark is not None:
                    x, reach = bars + whole * one.mark, MARK * row / 2
                    canvas.plot([x, x], [y - reach, y + reach], color=COMPARED, linewidth=2.0, solid_capstyle="butt")
                for place, right in zip(shown, rights, strict=True):
                    write(canvas, right, y, one.texts[place], size, ha="right", color=ink)
    return figure
