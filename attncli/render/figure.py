"""Attention maps as pictures: PNG, SVG and PDF, drawn with matplotlib and without a display.

`heatmap` draws a record; `panel_grid`, which it calls, draws any rows of maps over the same tokens. Texts are
measured first, and then everything is placed in inches on one canvas (`plan`): no label lies on another.
"""

import difflib
import io
import logging
import math
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix, write_whole
from attncli.printable import printable
from attncli.record import AttentionRecord, Floats, number_list
from attncli.render import fonts
from attncli.render.cells import pool
from attncli.render.layout import (
    BAR_WIDTH,
    LABEL_GAP,
    LINE,
    LINED,
    LONGEST_BAR,
    MARGIN,
    NO_BREAK,
    NUMBER,
    NUMBERED,
    SHARPNESS,
    SHORTEST_BAR,
    TITLE,
    WORD,
    Layout,
    Panel,
    placed,
    plan,
    wrap_panels,
)

COLOURS = "magma_r"  # even steps to the eye, in print and in grey too; light where there is nothing
DPI = 150
MOST_PIXELS = 200_000_000

SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,  # TrueType: text that can be searched and copied
    "svg.hashsalt": "attncli",  # the same picture is the same bytes
}
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

LONGEST_LABEL = 16  # columns of a terminal: a Chinese character takes two
LONGEST_NAME = 40  # characters of a model's name
INK, FAINT = "#222222", "#707070"


def heatmap(
    record: AttentionRecord,
    *,
    mean: bool = False,
    special: bool = True,
    vmax: float | None = None,
    cmap: str = COLOURS,
    title: str | None = None,
) -> Figure:
    """The maps of a record: one large, several as a grid; of several layers and heads, layers are the rows.

    mean: one map a layer, the mean over the record's heads.
    special: False leaves out [CLS], [SEP] and [PAD], and says that rows no longer sum to 1.
    vmax: the weight that gets the last colour; by default the largest that is drawn.
    title: instead of the model, layer, head and mask.

    Raises RequestError when the colour map is unknown, `vmax` is no positive number, or no token is left. A
    Notice names characters that no font on this machine has.
    """
    kept = [place for place, flag in enumerate(record.tokens.special) if special or not flag]
    if not kept:
        raise RequestError("there is nothing to draw: every token is a special one")
    weights = record.weights.mean(axis=1, keepdims=True) if mean else record.weights
    if len(kept) < len(record.tokens):
        weights = weights[:, :, kept][..., kept]
    layers = [f"layer {number}" for number in record.layers]
    heads = [""] if mean else [f"head {number}" for number in record.heads]
    table = len(layers) > 1 and len(heads) > 1
    if table:
        rows = [
            [Panel(head if row == 0 else "", one) for head, one in zip(heads, maps, strict=True)]
            for row, maps in enumerate(weights)
        ]
    else:
        captions = layers if len(layers) > 1 else heads if len(heads) > 1 else [""]
        maps = weights.reshape(-1, len(kept), len(kept))
        rows = wrap_panels([Panel(*one) for one in zip(captions, maps, strict=True)])
    return panel_grid(
        rows,
        [record.tokens.text[place] for place in kept],
        headings=layers if table else (),
        title=describe(record, mean) if title is None else title,
        note="" if special else left_out(record),
        vmax=vmax,
        cmap=cmap,
    )


def panel_grid(
    rows: Sequence[Sequence[Panel]],
    tokens: Sequence[str],
    *,
    headings: Sequence[str] = (),
    title: str = "",
    note: str = "",
    vmax: float | None = None,
    cmap: str = COLOURS,
) -> Figure:
    """Rows of maps over the same tokens, with one colour scale from 0 to `vmax` and one colour bar.

    A row may be shorter than the first. Tokens stand left of the first column and below the last row where
    they can be read, and weights in cells that have room for them, save those that round to 0.00. A map with
    more cells than a print can show is drawn with fewer, each the largest of those it stands for.

    headings: words to the left of each row; title and note: above everything.

    Raises RequestError when the colour map is unknown, or `vmax` is no positive number. A Notice names
    characters that no font on this machine has.
    """
    colours = colour_map(cmap)
    check_vmax(vmax)
    rows = [[Panel(clean_lines(panel.caption), panel.matrix) for panel in row] for row in rows]
    labels = [cut(clean(token), LONGEST_LABEL) for token in tokens]
    headings = [clean(heading) for heading in headings]
    title, note = clean_lines(title), clean_lines(note)
    captions = [panel.caption for row in rows for panel in row]
    families = fonts.families([*labels, *captions, *headings, title, note])
    largest = max(float(panel.matrix.max()) for row in rows for panel in row)
    top = vmax or largest or 1.0
    norm = Normalize(0, top)
    with drawing(families):
        layout = plan(rows, labels, headings, title, note, families)
        figure = Figure(figsize=(layout.width, layout.height))
        canvas = figure.add_axes((0, 0, 1, 1), xlim=(0, layout.width), ylim=(layout.height, 0))
        canvas.set_axis_off()
        draw_words(canvas, layout, headings)
        draw_maps(canvas, layout, rows, colours, norm)
        if layout.label_size:
            draw_labels(canvas, layout, rows, labels)
        draw_bar(figure, layout, ScalarMappable(norm, colours), largest > top)
    return figure


def save_figure(figure: Figure, path: str | Path, dpi: int = DPI) -> None:
    """Save by suffix: .png, .svg or .pdf. Whole or not at all; the same picture gives the same bytes.

    dpi: dots an inch, of a PNG and of the maps in the others.

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
        figure.savefig(drawn, format=suffix[1:], dpi=dpi, metadata=NO_DATE[suffix])
    write_whole(path, lambda file: file.write_bytes(drawn.getvalue()))


def colour_map(name: str) -> Colormap:
    """matplotlib's colour map of this name. Raises RequestError, with names like it, when there is none."""
    if name not in matplotlib.colormaps:
        near = difflib.get_close_matches(name, matplotlib.colormaps, n=3) or ["magma_r", "viridis", "Blues"]
        raise RequestError(f"no colour map {name!r}: matplotlib has {', '.join(near)} and others")
    return matplotlib.colormaps[name]


def check_vmax(vmax: float | None) -> None:
    """Raises RequestError when `vmax` is no positive number."""
    if vmax is not None and not 0 < vmax < math.inf:
        raise RequestError(f"--vmax {vmax:g} is no positive number: weights are between 0 and 1")


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


# --- words ----------------------------------------------------------------------------------------------


def describe(record: AttentionRecord, mean: bool) -> str:
    """Model, layer, head, mask; a line may break between them only."""
    heads = numbered("head", record.heads)
    parts = [
        short_name(record.model.name),
        numbered("layer", record.layers),
        f"mean of {heads}" if mean else heads,
        f"mask {record.mask_name}",
    ]
    return " · ".join(part.replace(" ", NO_BREAK) for part in parts)


def numbered(what: str, numbers: Sequence[int]) -> str:
    """head 3, heads 0-11."""
    return f"{what}{'s' if len(numbers) > 1 else ''} {number_list(numbers)}"


def short_name(name: str) -> str:
    """A model's name, without the folders that lead to it where it is long."""
    if len(name) > LONGEST_NAME:
        name = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return cut(name, LONGEST_NAME)


def left_out(record: AttentionRecord) -> str:
    """What a picture without special tokens says; nothing where the text has none."""
    pairs = zip(record.tokens.text, record.tokens.special, strict=True)
    names = list(dict.fromkeys(token for token, special in pairs if special))
    return f"without {', '.join(names)}: rows no longer sum to 1" if names else ""


def clean(text: str) -> str:
    """Text from outside, as a file can hold it: no control characters, and nothing that XML forbids."""
    return printable(text).translate({0xFFFE: "�", 0xFFFF: "�"})


def clean_lines(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))


def cut(text: str, most: int) -> str:
    """`text`, or as much of its head as fits into `most` columns with "…"."""
    ends = np.cumsum([2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text])
    if not text or ends[-1] <= most:
        return text
    return text[: int(np.searchsorted(ends, most - 1, side="right"))] + "…"


# --- drawing --------------------------------------------------------------------------------------------


def draw_words(canvas: Axes, layout: Layout, headings: Sequence[str]) -> None:
    """The title, the note, what rows and columns of a map are, and the headings of the grid's rows."""
    middle, y = layout.width / 2, MARGIN
    for lines, size, colour in ((layout.title, TITLE, INK), (layout.note, WORD, FAINT)):
        for line in lines:
            write(canvas, middle, y, line, size * layout.scale, color=colour, va="top")
            y += LINE * size * layout.scale

    word = WORD * layout.scale
    x = layout.words
    for top, heading in zip(layout.tops, headings, strict=False):
        y = top + layout.side / 2
        write(canvas, x - LINE * layout.caption_size / 2, y, heading, layout.caption_size, rotation=90)
    x -= LINE * layout.caption_size if headings else 0
    y = (layout.tops[0] + layout.bottom) / 2
    write(canvas, x - LINE * word / 2, y, "query", word, color=FAINT, rotation=90)
    x = (layout.lefts[0] + layout.right) / 2
    y = layout.bottom + (layout.label_width if layout.turned else LINE * layout.label_size)
    write(canvas, x, y + LABEL_GAP + LINE * word / 2, "key", word, color=FAINT)


def draw_maps(
    canvas: Axes, layout: Layout, rows: Sequence[Sequence[Panel]], colours: Colormap, norm: Normalize
) -> None:
    """Every map with its caption, a frame, and where there is room lines and weights."""
    frames, lines = [], []
    most = round(layout.side * SHARPNESS)
    for panel, x, y in placed(layout, rows):
        right, bottom = x + layout.side, y + layout.side
        canvas.imshow(
            pool(panel.matrix, most, most),
            cmap=colours,
            norm=norm,
            extent=(x, right, bottom, y),
            aspect="auto",
            interpolation="nearest",
        )
        write(canvas, (x + right) / 2, y - 0.03, panel.caption, layout.caption_size, va="bottom")
        frames.append([(x, y), (right, y), (right, bottom), (x, bottom), (x, y)])
        if layout.cell >= LINED:
            for step in np.arange(1, len(panel.matrix)) * layout.cell:
                lines += [[(x + step, y), (x + step, bottom)], [(x, y + step), (right, y + step)]]
        if layout.cell >= NUMBERED:
            draw_numbers(canvas, layout.cell, panel.matrix, x, y, colours(norm(panel.matrix)))
    canvas.add_collection(LineCollection(lines, colors="white", linewidths=0.6), autolim=False)
    canvas.add_collection(LineCollection(frames, colors=FAINT, linewidths=0.6), autolim=False)


def draw_numbers(canvas: Axes, cell: float, matrix: Floats, x: float, y: float, colours: Any) -> None:
    """Each weight in its cell, dark on light or light on dark; what rounds to 0.00 is left to the colour."""
    brightness = colours[..., :3] @ (0.299, 0.587, 0.114)
    size = min(NUMBER, cell * 24)  # points: "0.00" then fills four fifths of the cell
    for (query, key), weight in np.ndenumerate(matrix):
        if weight >= 0.005:
            colour = INK if brightness[query, key] > 0.55 else "white"
            place = x + (key + 0.5) * cell, y + (query + 0.5) * cell
            write(canvas, *place, f"{weight:.2f}", size, color=colour)


def draw_labels(canvas: Axes, layout: Layout, rows: Sequence[Sequence[Panel]], labels: Sequence[str]) -> None:
    """Queries left of the first column, keys under the last map of each."""
    lowest = {x: y for _, x, y in placed(layout, rows)}
    for number, text in enumerate(labels):
        along = (number + 0.5) * layout.cell
        for top in layout.tops:
            write(canvas, layout.lefts[0] - LABEL_GAP, top + along, text, layout.label_size, ha="right")
        for left, top in lowest.items():
            write(
                canvas,
                left + along,
                top + layout.side + LABEL_GAP,
                text,
                layout.label_size,
                va="top",
                rotation=90 if layout.turned else 0,
            )


def draw_bar(figure: Figure, layout: Layout, colours: ScalarMappable, more: bool) -> None:
    """The colour bar, right of the maps; it ends in a point if `more` weight was drawn than it reaches to."""
    maps = layout.bottom - layout.tops[0]
    height = min(max(maps, SHORTEST_BAR * layout.scale), LONGEST_BAR * layout.scale)
    place = figure.add_axes(
        (
            layout.bar / layout.width,
            1 - (layout.tops[0] + height) / layout.height,
            BAR_WIDTH * layout.scale / layout.width,
            height / layout.height,
        )
    )
    bar = figure.colorbar(colours, cax=place, ticks=MaxNLocator(5), extend="max" if more else "neither")
    bar.set_label("attention weight", size=WORD * layout.scale, color=FAINT)
    bar.ax.tick_params(labelsize=WORD * layout.scale, colors=INK, width=0.6, length=3 * layout.scale)
    bar.outline.set(linewidth=0.6, edgecolor=FAINT)


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
