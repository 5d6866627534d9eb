"""What pictures of every style share: matplotlib's settings, and the words round what is drawn.

A picture is one canvas in inches from its upper left corner; `attncli.render.layout` says where things go.
"""

import logging
import math
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.errors import RequestError
from attncli.printable import printable
from attncli.render import fonts
from attncli.render.layout import CLOSE, LABEL_GAP, LINE, Layout, Words
from attncli.render.paper import Paper

SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,  # TrueType: text that can be searched and copied
    "svg.hashsalt": "attncli",  # the same picture is the same bytes
}
LONGEST_LABEL = 16  # columns of a terminal: a Chinese character takes two
INK, FAINT = "#222222", "#707070"


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


def check_vmax(vmax: float | None) -> None:
    """Raises RequestError when `vmax` is no positive number."""
    if vmax is not None and not 0 < vmax < math.inf:
        raise RequestError(f"--vmax {vmax:g} is no positive number: weights are between 0 and 1")


# --- text from outside ----------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Text from outside, as a file can hold it: no control characters, and nothing that XML forbids."""
    return printable(text).translate({0xFFFE: "�", 0xFFFF: "�"})


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def token_label(token: str) -> str:
    """A token as it stands beside a map."""
    return cut(clean(token), LONGEST_LABEL)


def cut(text: str, most: int) -> str:
    """`text`, or as much of its head as fits into `most` columns with "…"."""
    ends = np.cumsum([2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text])
    if not text or ends[-1] <= most:
        return text
    return text[: int(np.searchsorted(ends, most - 1, side="right"))] + "…"


def words_around(
    captions: Sequence[Sequence[str]],
    headings: Sequence[str],
    title: str,
    note: str,
    others: Sequence[str],
    paper: Paper,
) -> Words:
    """The words of a picture, clean, with fonts that show them and the `others`.

    A Notice names characters that no font on this machine has.
    """
    above = [[clean_lines(caption) for caption in row] for row in captions]
    left = [clean(heading) for heading in headings]
    title, note = clean_lines(title), clean_lines(note)
    every = [*others, *(caption for row in above for caption in row), *left, title, note]
    return Words(above, left, title, note, tuple(fonts.families(every, paper.font)), paper)


# --- the canvas -----------------------------------------------------------------------------------------


def blank(layout: Layout) -> tuple[Figure, Axes]:
    """A figure of the layout's size, and a canvas all over it."""
    figure = Figure(figsize=(layout.width, layout.height))
    canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, layout.width), ylim=(layout.height, 0))
    canvas.set_axis_off()
    return figure, canvas


def draw_words(canvas: Axes, layout: Layout) -> None:
    """The title and the note above everything, the headings of the rows, and the captions of the panels."""
    y = layout.margin
    for lines, size, colour in ((layout.title, layout.title_size, INK), (layout.note, layout.word_size, FAINT)):
        for line in lines:
            write(canvas, layout.width / 2, y, line, size, color=colour, va="top")
            y += LINE * size
    x = layout.words - LINE * layout.caption_size / 2
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
