"""What pictures of every style share: matplotlib's settings, the canvas, and the words round what is drawn.

A picture is one canvas in inches from its upper left corner; `attncli.render.figures.layout` says where things go.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.render.figures.layout import CLOSE, LABEL_GAP, LINE, MARGIN, Layout
from attncli.render.hidden import HIDDEN

SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,  # TrueType: text that can be searched and copied
    "svg.hashsalt": "attncli",  # the same picture is the same bytes
    "hatch.linewidth": 0.6,
}
INK, FAINT = "#222222", "#707070"
RULES = "#d8d8d8"  # between cells, of which most are white
GROUND, HATCH, STROKES = "#e6e6e6", "#a8a8a8", "//////"  # of what is hidden


@contextmanager
def drawing(families: Sequence[str]) -> Iterator[None]:
    """matplotlib with our settings and nobody else's, so that the same maps are the same picture anywhere."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        matplotlib.rcParams["font.family"] = list(families)
        warnings.filterwarnings("ignore", message="Glyph")  # `fonts.families` has said it
        log.setLevel(logging.ERROR)  # that a family has no "normal" weight is no news to the user
        try:
            yield
        finally:
            log.setLevel(level)


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of so many inches, and a canvas all over it."""
    figure = Figure(figsize=(width, height))
    canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    canvas.set_axis_off()
    return figure, canvas


def draw_wording(canvas: Axes, layout: Layout) -> None:
    """The title and the note above everything, the headings of the rows, and the captions of the panels."""
    y = layout.margin
    for lines, size, colour in ((layout.title, layout.title_size, INK), (layout.note, layout.note_size, FAINT)):
        for line in lines:
            write(canvas, layout.width / 2, y, line, size, color=colour, va="top")
            y += LINE * size
    x = layout.beside - LINE * layout.caption_size / 2
    for top, heading in zip(layout.tops, layout.headings, strict=False):
        write(canvas, x, top + layout.high / 2, heading, layout.caption_size, rotation=90)
    for row, top in zip(layout.captions, layout.tops, strict=True):
        for caption, left in zip(row, layout.lefts, strict=False):
            write(canvas, left + layout.wide / 2, top - CLOSE, caption, layout.caption_size, va="bottom")


def draw_queries(canvas: Axes, layout: Layout, labels: Sequence[str], held: int | None) -> None:
    """The queries, left of the first column; all but the one that is held, if one is, are faint."""
    for top in layout.tops:
        for number, text in enumerate(labels):
            write(
                canvas,
                layout.lefts[0] - LABEL_GAP,
                top + (number + 0.5) * layout.cell,
                text,
                layout.label_size,
                ha="right",
                color=INK if held in (None, number) else FAINT,
            )


def draw_lines(canvas: Axes, y: float, lines: Sequence[str], size: float, colour: str) -> None:
    """Lines of text from `y` down, at the left."""
    for place, line in enumerate(lines):
        write(canvas, MARGIN, y + LINE * size * (place + 0.5), line, size, ha="left", color=colour)


def dark_ink(colours: Floats | Doubles) -> Bools:
    """Where black has more contrast than white on these `[..., rgb(a)]`: 4.58 at the least (WCAG 2)."""
    linear = np.where(
        colours[..., :3] <= 0.04045, colours[..., :3] / 12.92, ((colours[..., :3] + 0.055) / 1.055) ** 2.4
    )
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    return np.asarray((luminance + 0.05) ** 2 > 1.05 * 0.05)


def hatched(x: float, y: float, wide: float, high: float) -> Rectangle:
    """What lies under everything that is hidden: to be told from any colour, in print and in grey too."""
    return Rectangle((x, y), wide, high, facecolor=GROUND, edgecolor=HATCH, hatch=STROKES, linewidth=0, zorder=-1)


def draw_hidden_sample(canvas: Axes, x: float, y: float, side: float, size: float) -> None:
    """How what is hidden looks, from (x, y) down: a square and its word."""
    canvas.add_patch(hatched(x, y, side, side))
    write(canvas, x + side + LABEL_GAP, y + side / 2, HIDDEN, size, ha="left", color=FAINT)


def write(canvas: Axes, x: float, y: float, text: str, size: float, **style: Any) -> None:
    """Text with its middle at (x, y). "$x$" is a token, not mathematics."""
    if text:
        canvas.text(
            x,
            y,
            text,
            **{"size": size, "ha": "center", "va": "center", "color": INK, **style},
            parse_math=False,
        )
