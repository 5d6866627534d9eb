"""What the colours of heads stand for: short lines with their names, below everything."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from attncli.render.figures.drawing import write
from attncli.render.figures.layout import LABEL_GAP, LINE, Layout
from attncli.render.figures.wording import Wording

# Inches, for text of the standard size.
SAMPLE = 0.2  # a line
APART = 0.12  # entries
LEGEND_GAP = 0.1  # from the panels


def legend_height(layout: Layout, rows: int) -> float:
    """Inches that so many rows take."""
    return LEGEND_GAP * layout.unit + rows * LINE * layout.note_size


def legend_rows(wording: Wording, layout: Layout, texts: Sequence[str]) -> list[list[tuple[float, str]]]:
    """The legend's entries in rows as wide as the picture, in its middle: where each begins, and its words."""
    needed = [(SAMPLE + LABEL_GAP + APART) * layout.unit + wording.widest([text], layout.note_size) for text in texts]
    most = layout.width - 2 * layout.margin + APART * layout.unit
    rows: list[list[int]] = []
    for entry in range(len(texts)):
        if rows and sum(needed[one] for one in [*rows[-1], entry]) <= most:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    placed = []
    for row in rows:
        widths = [needed[entry] for entry in row]
        left = (layout.width - sum(widths) + APART * layout.unit) / 2
        placed.append([(left + sum(widths[:place]), texts[entry]) for place, entry in enumerate(row)])
    return placed


def draw_legend(
    canvas: Axes, layout: Layout, rows: Sequence[Sequence[tuple[float, str]]], colours: Mapping[str, str]
) -> None:
    """A short line of each colour and what it stands for, below everything."""
    samples, inks = [], []
    y = layout.height - layout.margin - (len(rows) - 0.5) * LINE * layout.note_size
    for row in rows:
        for x, text in row:
            end = x + SAMPLE * layout.unit
            samples.append([(x, y), (end, y)])
            inks.append(colours[text])
            write(canvas, end + LABEL_GAP * layout.unit, y, text, layout.note_size, ha="left")
        y += LINE * layout.note_size
    canvas.add_collection(LineCollection(samples, colors=inks, linewidths=2.0), autolim=False)
