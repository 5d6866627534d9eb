"""Draw a row of a map as bars (`attncli.report.row`)."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.record.display import HEAD_COLOURS
from attncli.report.figure import fonts, title_of
from attncli.report.figure.drawing import FAINT, INK, blank, draw_heading, draw_lines, drawing, write
from attncli.report.figure.fonts import clean, token_label, wrap_line
from attncli.report.figure.layout import GAP, LABEL_GAP, LINE, bar_length, left_out_note
from attncli.report.paper import STANDARD, Paper, larger, too_narrow
from attncli.report.parts import BarStep, RowKey

MOST_ROWS = 60
UNFOLDED = 12  # letters of a heading that print keeps on one line

# Of the height of a row.
ROW = 1.2  # of a line of text
BAR = 0.62

# Inches.
LONGEST, SHORTEST = 0.7, 0.12  # the room of a column's bars from the lowest to the highest number
NUMBER_GAP, COLUMN_GAP = 0.07, 0.18  # for text of the usual size

HIDDEN_BAR, BAND = "#d8d8d8", "#fff1cc"


def draw_row(
    keys: Sequence[RowKey], steps: Sequence[BarStep], query: int | None, title: Sequence[str], paper: Paper
) -> Figure:
    """Draw a row per key and a column of bars per step, each bar with its number as in the table.

    Each column has its own scale. The query's own row has a band of colour; masked keys are faint. If there are more
    than MOST_ROWS keys, those with the largest weights are drawn, in the order of the text, and the picture says so.

    Raises RequestError for too small a width.
    """
    shown = sorted(sorted(range(len(keys)), key=lambda place: -keys[place].weight)[:MOST_ROWS])
    labels = [f"{keys[place].place} {token_label(keys[place].shown)}" for place in shown]
    steps = list(steps)
    notes = []
    if len(shown) < len(keys):
        share = sum(keys[place].weight for place in shown)
        notes.append(f"the {len(shown)} of {len(keys)} keys with the largest weights, together {share:.3f}")
    heading = clean(title_of(title))
    families = fonts.families([*labels, heading, *notes, *(step.heading for step in steps)], paper.font)
    size, margin, unit = paper.note, paper.margin, paper.label / STANDARD

    def widest(texts: Sequence[str]) -> float:
        return max(fonts.widths(texts, size, families))

    def numbers_of(step: BarStep) -> float:
        return NUMBER_GAP * unit + widest([step.texts[place] for place in shown])

    def lines_of(step: BarStep) -> list[str]:
        """Return the heading of a column: the formula, and below it the name of its result. Print folds a long one."""
        formula, equals, result = clean(step.heading).partition(" = ")
        if paper.width is not None and len(formula) > UNFOLDED:
            return wrap_line(formula, size, SHORTEST + numbers_of(step), families, whole=True)
        return [formula, f"= {result}"] if equals else [formula]

    def widths_of(bar: float) -> list[float]:
        return [max(bar + numbers_of(step), widest([*lines_of(step), step.total])) for step in steps]

    def width_of(bar: float) -> float:
        return rows + sum(widths_of(bar)) + COLUMN_GAP * unit * len(steps) + margin

    rows = margin + widest([*labels, "sum"]) + LABEL_GAP  # where the bars begin
    left_out = []
    while (longest := bar_length(width_of, paper, SHORTEST, LONGEST)) is None:
        droppable = [step for step in steps if step.drop]
        if not droppable:
            raise too_narrow(paper, larger(paper, width_of(SHORTEST)))
        step = min(droppable, key=lambda step: step.drop)
        steps.remove(step)
        left_out.append(step.heading)
    notes += filter(None, [left_out_note(left_out)])
    widths = widths_of(longest)
    lefts = [rows + COLUMN_GAP * unit * (1 + place) + sum(widths[:place]) for place in range(len(steps))]
    width = width_of(longest) if paper.width is None else paper.width
    titles = wrap_line(heading, paper.heading, width - 2 * margin, families)
    notes = [line for note in notes for line in wrap_line(note, size, width - 2 * margin, families)]
    row = ROW * LINE * size
    headings = margin + LINE * (paper.heading * len(titles) + size * len(notes)) + GAP
    top = headings + LINE * size * max(len(lines_of(step)) for step in steps) + LABEL_GAP
    bottom = top + row * len(shown)
    middles, drawn = [top + row * (place + 0.5) for place in range(len(shown))], [keys[place] for place in shown]

    with drawing(families):
        figure, canvas = blank(width, bottom + row + margin)
        draw_heading(canvas, paper, titles, notes)
        for y, label, key in zip(middles, labels, drawn, strict=True):
            if key.place == query:
                band = Rectangle((margin / 2, y - row / 2), width - margin, row, facecolor=BAND, linewidth=0)
                canvas.add_patch(band)
            write(canvas, rows, y, label, size, ha="right", color=INK if key.allowed else FAINT)
        write(canvas, rows, bottom + row / 2, "sum", size, ha="right", color=FAINT)
        canvas.plot([margin, width - margin], [bottom, bottom], color=FAINT, linewidth=0.6)
        for step, left, wide in zip(steps, lefts, widths, strict=True):
            lines = lines_of(step)
            draw_lines(canvas, left, top - LABEL_GAP - LINE * size * len(lines), lines, size, INK)
            values = [step.values[place] for place in shown]
            least, most = min(0.0, *values), max(0.0, *values)
            scale = longest / ((most - least) or 1.0)
            zero = left - least * scale
            colours = [HEAD_COLOURS[step.colour] if key.allowed else HIDDEN_BAR for key in drawn]
            canvas.barh(middles, [value * scale for value in values], BAR * row, left=zero, color=colours)
            canvas.plot([zero, zero], [top, bottom], color=FAINT, linewidth=0.6)
            for y, place, key in zip(middles, shown, drawn, strict=True):
                ink = INK if key.allowed else FAINT
                write(canvas, left + wide, y, step.texts[place], size, ha="right", color=ink)
            write(canvas, left + wide, bottom + row / 2, step.total, size, ha="right")
    return figure
