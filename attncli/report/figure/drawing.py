"""Draw and save what pictures of every style share: the canvas, words, numbers, colour bars and legends.

A picture is one canvas in inches from its upper left corner; `attncli.report.figure.layout` plans it.
"""

import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colorbar import Colorbar
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from attncli.base.arrays import Bools, Doubles, Floats
from attncli.base.errors import RequestError
from attncli.base.files import PICTURES, check_suffix, write_whole
from attncli.record.display import HIDDEN, dashes
from attncli.report.figure import fonts
from attncli.report.figure.layout import CLOSE, LABEL_GAP, LINE, TICK, PictureLayout, Wording, tick_places
from attncli.report.paper import SCREEN_DPI, Paper

SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,  # TrueType: text that can be searched and copied
    "svg.hashsalt": "attncli",  # the same picture is the same bytes
    "hatch.linewidth": 0.6,
}
INK, FAINT = "#222222", "#707070"
RULES = "#d8d8d8"  # between cells, of which most are white
GROUND, HATCH, STROKES = "#e6e6e6", "#a8a8a8", "//////"  # of hidden cells


@contextmanager
def drawing(families: Sequence[str]) -> Iterator[None]:
    """Run matplotlib with our settings alone, so that the same maps give the same picture anywhere."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        matplotlib.rcParams["font.family"] = list(families)
        warnings.filterwarnings("ignore", message="Glyph")  # `fonts.families` warns about it
        log.setLevel(logging.ERROR)  # users need no warning that a family lacks a "normal" weight
        try:
            yield
        finally:
            log.setLevel(level)


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of this size in inches, and a canvas that covers it."""
    figure = Figure(figsize=(width, height))
    canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    canvas.set_axis_off()
    return figure, canvas


def draw_wording(canvas: Axes, layout: PictureLayout) -> None:
    """Draw the title and the note above everything, the headings of the rows, and the captions of the panels."""
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


def draw_queries(canvas: Axes, layout: PictureLayout, labels: Sequence[str], highlighted: int | None) -> None:
    """Draw the queries left of the first column; where one is highlighted, the others are faint."""
    for top in layout.tops:
        for number in named_places(layout, len(labels), highlighted):
            write(
                canvas,
                layout.lefts[0] - LABEL_GAP,
                top + (number + 0.5) * layout.cell,
                labels[number],
                layout.label_size,
                ha="right",
                color=INK if highlighted in (None, number) else FAINT,
            )


def named_places(layout: PictureLayout, count: int, highlighted: int | None = None) -> list[int]:
    """Return the tokens that have a label. The highlighted one has it in place of its neighbours."""
    step = layout.label_step
    named = range(0, count, step)
    if highlighted is None:
        return [*named]
    return sorted({highlighted, *(one for one in named if abs(one - highlighted) >= step)})


def draw_lines(canvas: Axes, x: float, y: float, lines: Sequence[str], size: float, colour: str) -> None:
    """Draw lines of text from (x, y) down."""
    for place, line in enumerate(lines):
        write(canvas, x, y + LINE * size * (place + 0.5), line, size, ha="left", color=colour)


def draw_heading(canvas: Axes, paper: Paper, title: Sequence[str], notes: Sequence[str]) -> None:
    """Draw the lines of the title and of the notes in the upper left corner."""
    draw_lines(canvas, paper.margin, paper.margin, title, paper.heading, INK)
    draw_lines(canvas, paper.margin, paper.margin + LINE * paper.heading * len(title), notes, paper.note, FAINT)


def dark_ink(colours: Floats | Doubles) -> Bools:
    """Return True where black has more contrast than white on these `[..., rgb(a)]`: at least 4.58 (WCAG 2)."""
    linear = np.where(
        colours[..., :3] <= 0.04045, colours[..., :3] / 12.92, ((colours[..., :3] + 0.055) / 1.055) ** 2.4
    )
    luminance = linear @ (0.2126, 0.7152, 0.0722)
    return np.asarray((luminance + 0.05) ** 2 > 1.05 * 0.05)


def hatched(x: float, y: float, wide: float, high: float) -> Rectangle:
    """Return the background of hidden cells. It differs from any colour, in print and in grey too."""
    return Rectangle((x, y), wide, high, facecolor=GROUND, edgecolor=HATCH, hatch=STROKES, linewidth=0, zorder=-1)


def draw_hidden_sample(canvas: Axes, x: float, y: float, side: float, size: float) -> None:
    """Draw a hidden cell and its name, from (x, y) down."""
    canvas.add_patch(hatched(x, y, side, side))
    write(canvas, x + side + LABEL_GAP, y + side / 2, HIDDEN, size, ha="left", color=FAINT)


def write(canvas: Axes, x: float, y: float, text: str, size: float, **style: Any) -> None:
    """Write text with its middle at (x, y). "$x$" is a token, not mathematics."""
    if text:
        canvas.text(
            x,
            y,
            text,
            **{"size": size, "ha": "center", "va": "center", "color": INK, **style},
            parse_math=False,
        )


# --- numbers instead of labels ------------------------------------------------------------------------


def draw_upright(
    canvas: Axes, layout: PictureLayout, numbers: Sequence[str], x: float, y: float, *, right: bool = False
) -> None:
    """Draw numbers from (x, y) down, left of a panel or right of it."""
    half, way = LINE * layout.tick_size / 2, 1 if right else -1
    marks = []
    for place in tick_places(len(numbers), layout.cell, 2 * half):
        at = (place + 0.5) * layout.cell
        marks.append([(x, y + at), (x + way * TICK, y + at)])
        middle = inside(at, half, layout.cell * len(numbers))
        gap = way * (TICK + LABEL_GAP / 2)
        write(canvas, x + gap, y + middle, numbers[place], layout.tick_size, ha="left" if right else "right")
    canvas.add_collection(LineCollection(marks, colors=FAINT, linewidths=0.6), autolim=False)


def draw_across(
    canvas: Axes, layout: PictureLayout, wording: Wording, numbers: Sequence[str], x: float, y: float
) -> None:
    """Draw numbers from (x, y) to the right, under a panel."""
    room = wording.widest(numbers, layout.tick_size)
    marks = []
    for place in tick_places(len(numbers), layout.cell, room):
        at = (place + 0.5) * layout.cell
        marks.append([(x + at, y), (x + at, y + TICK)])
        middle = inside(at, wording.widest([numbers[place]], layout.tick_size) / 2, layout.cell * len(numbers))
        write(canvas, x + middle, y + TICK + LABEL_GAP / 2, numbers[place], layout.tick_size, va="top")
    canvas.add_collection(LineCollection(marks, colors=FAINT, linewidths=0.6), autolim=False)


def inside(at: float, half: float, length: float) -> float:
    """Return the middle of a number that stays beside its panel."""
    return min(max(at, half), max(length - half, half))


# --- the colour bar -----------------------------------------------------------------------------------

ROOTS = (0, 0.01, 0.1, 0.25, 0.5, 1)  # the marks of a bar whose colours go by the square root, up to 1

# Inches.
BAR_GAP, BAR_WIDTH, BAR_TEXT = 0.25, 0.16, 0.75  # for text of 10 points
SHORTEST_BAR, LONGEST_BAR = 1.2, 4.0


def draw_bars(
    figure: Figure, layout: PictureLayout, wording: Wording, bars: Sequence[tuple[ScalarMappable, str]], more: bool
) -> float:
    """Draw colour bars with their names right of the maps: each beside its map in a single column, else below each
    other. They end in an arrow if there is `more` weight than their range. Return the lower end of the last.
    """
    unit = layout.unit
    shortest, longest = SHORTEST_BAR * unit * len(bars), LONGEST_BAR * unit  # of all bars together
    room = min(max(layout.bottom - layout.tops[0], shortest), max(shortest, longest)) / len(bars)
    high = room - (BAR_GAP * unit if len(bars) > 1 else 0)
    tops = [layout.tops[0] + number * room for number in range(len(bars))]
    if len(bars) == len(layout.tops) and len(layout.lefts) == 1 and layout.high >= SHORTEST_BAR * unit:
        tops, high = layout.tops, min(layout.high, LONGEST_BAR * unit)
    for y, (colours, scale) in zip(tops, bars, strict=True):
        place = layout.edge + BAR_GAP * unit, y, BAR_WIDTH * unit, high
        how: dict[str, Any] = {"extend": "max" if more else "neither", "format": "{x:g}"}
        ticks: Any = MaxNLocator(5 if len(bars) == 1 else 3)
        if isinstance(colours.norm, PowerNorm):
            most = colours.norm.vmax or 1.0
            power = 10.0 ** math.ceil(math.log10(most))
            ticks = [root * power for root in ROOTS if root * power <= most]
        name = "\n".join(fonts.wrap_line(scale, layout.note_size, high, wording.families))
        made = bar_at(figure, place, colours, name, layout.note_size, ticks=ticks, **how)
        made.ax.tick_params(length=3 * unit)
    return tops[-1] + high


def bar_at(
    figure: Figure,
    place: tuple[float, float, float, float],
    colours: ScalarMappable,
    name: str,
    size: float,
    **how: Any,
) -> Colorbar:
    """Draw a colour bar with its name in letters of this size. place: its left, top, width and height, in inches."""
    (left, top, across, down), (wide, high) = place, figure.get_size_inches()
    axes = figure.add_axes((left / wide, 1 - (top + down) / high, across / wide, down / high))
    bar = figure.colorbar(colours, cax=axes, **how)
    bar.set_label(name, size=size, color=FAINT, linespacing=1.0)
    bar.ax.tick_params(labelsize=size, colors=INK, width=0.6, length=2)
    bar.outline.set(linewidth=0.6, edgecolor=FAINT)
    return bar


# --- the legend of heads ------------------------------------------------------------------------------

# Inches, for text of the standard size.
SAMPLE = 0.2  # a line
APART = 0.12  # entries
LEGEND_GAP = 0.1  # from the panels


def legend_height(layout: PictureLayout, rows: int) -> float:
    """Return the height in inches of this many rows of the legend."""
    return LEGEND_GAP * layout.unit + rows * LINE * layout.note_size


def legend_rows(wording: Wording, layout: PictureLayout, texts: Sequence[str]) -> list[list[tuple[float, str]]]:
    """Arrange the legend's entries in rows as wide as the picture: the place of each entry, and its words."""
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
    canvas: Axes, layout: PictureLayout, rows: Sequence[Sequence[tuple[float, str]]], colours: Mapping[str, str]
) -> None:
    """Draw a short line of each colour, and of its dashes, with its name, below everything."""
    samples, inks = [], []
    y = layout.height - layout.margin - (len(rows) - 0.5) * LINE * layout.note_size
    for row in rows:
        for x, text in row:
            end = x + SAMPLE * layout.unit
            samples.append([(x, y), (end, y)])
            inks.append(colours[text])
            write(canvas, end + LABEL_GAP * layout.unit, y, text, layout.note_size, ha="left")
        y += LINE * layout.note_size
    styles = [dashes(place) for place in range(len(samples))]
    canvas.add_collection(LineCollection(samples, colors=inks, linewidths=2.0, linestyles=styles), autolim=False)


# --- files -------------------------------------------------------------------------------------------

MOST_PIXELS = 200_000_000
NO_DATE: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save_figure(figure: Figure, path: str | Path, dpi: int = SCREEN_DPI, title: str = "") -> None:
    """Save by suffix: .png, .svg or .pdf. A file appears whole or not at all.

    The same picture gives the same bytes. title: for the file's metadata. dpi: dots per inch, of a PNG and of the maps
    in an SVG or PDF.

    Raises RequestError for another suffix, an unwritable place, or more dots than fit into memory.
    """
    path = Path(path)
    suffix = check_suffix(path, PICTURES, "a picture")
    width, height = (round(side * dpi) for side in figure.get_size_inches())
    if width * height > MOST_PIXELS:
        raise RequestError(
            f"{path}: at {dpi} dpi the picture has {width} x {height} pixels, which is too many; "
            f"--dpi {int(dpi * math.sqrt(MOST_PIXELS / (width * height)))} fits"
        )
    drawn = io.BytesIO()  # matplotlib does not end well on a full disk
    with drawing([fonts.DEFAULT]):
        figure.savefig(
            drawn, format=suffix[1:], dpi=dpi, metadata={"Title": title.replace(fonts.NO_BREAK, " "), **NO_DATE[suffix]}
        )
    write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def has_dots(figure: Figure) -> bool:
    """Return whether parts of a picture are made of dots in an SVG or PDF too."""
    return any(isinstance(one, AxesImage) or one.get_rasterized() for one in figure.findobj())
