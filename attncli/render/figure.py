"""Attention maps as pictures: PNG, SVG and PDF, drawn with matplotlib and without a display.

`heatmap` draws a record; `panel_grid`, which it calls, draws any rows of maps over the same tokens. Texts are
measured first, and then everything is placed in inches on one canvas (`plan`): no label lies on another.
"""

import difflib
import io
import logging
import math
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from attncli.files import check_suffix, write_whole
from attncli.printable import printable
from attncli.record import AttentionRecord, Floats, number_list
from attncli.render import fonts
from attncli.render.cells import pool

SUFFIXES = (".png", ".svg", ".pdf")
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
NO_BREAK = "\N{NO-BREAK SPACE}"
INK, FAINT = "#222222", "#707070"

# Sizes of text, in points, of a picture of at most `ROOMY` inches; a larger one has larger words.
TITLE, CAPTION, WORD, LABEL, NUMBER = 12.0, 10.0, 9.0, 10.0, 9.0
ROOMY = 10.0
LINE = 1.3 / 72  # the height of a line in inches, by points

# Inches.
ONE_PANEL, ALL_PANELS = 12.0, 14.0  # the side of one map, and of a grid of them, that is aimed at
LARGE_CELL, GRID_CELL = 0.55, 0.3  # the largest cells, of few panels and of many
LEVEL_CELL, LEVEL_GRID = 0.85, 9.0  # the same where cells grow so that key labels need not be turned
SMALLEST_PANEL = 1.0
READABLE = 0.065  # the smallest cell with a label beside it
LARGEST_GRID = 40.0  # where maps grow so that their labels can be read
LABEL_GAP = 0.04
NUMBERED = 0.36  # the smallest cell with its weight in it
LINED = 0.12  # the smallest cell with a line around it
SHARPNESS = 75  # cells an inch at the most
MARGIN, GAP = 0.15, 0.12
BAR_GAP, BAR_WIDTH, BAR_WORDS = 0.25, 0.16, 0.75
SHORTEST_BAR, LONGEST_BAR = 1.2, 4.0
NARROWEST = 4.6
FEW = 4  # panels


@dataclass(frozen=True)
class Panel:
    """One map `[query, key]` of a grid, and the words above it; a line break in them starts a new line."""

    caption: str
    matrix: Floats


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
    suffix = check_suffix(path, SUFFIXES, "a picture")
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


# --- where everything goes ------------------------------------------------------------------------------


def wrap_panels(panels: list[Panel]) -> list[list[Panel]]:
    """Panels in rows: a little wider than high, with few places left over."""

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        return 2 * (rows * columns - len(panels)) + abs(columns - 1.3 * rows)

    columns = min(range(1, len(panels) + 1), key=cost)
    return [panels[start : start + columns] for start in range(0, len(panels), columns)]


@dataclass(frozen=True)
class Layout:
    """Places in inches from the upper left corner, and sizes of text in points.

    lefts, tops: of the columns and rows of maps; side: of a map; cell: of a token in it.
    words, bar: right of the rows' headings, left of the colour bar.
    label_size: of the tokens, 0 where they can't be read; turned: whether key labels stand upright.
    scale: how much larger than in a small picture the other words are.
    """

    width: float
    height: float
    lefts: list[float]
    tops: list[float]
    side: float
    cell: float
    label_size: float
    label_width: float
    turned: bool
    caption_size: float
    scale: float
    words: float
    bar: float
    title: list[str]
    note: list[str]

    @property
    def right(self) -> float:
        return self.lefts[-1] + self.side

    @property
    def bottom(self) -> float:
        return self.tops[-1] + self.side


def plan(
    rows: Sequence[Sequence[Panel]],
    labels: Sequence[str],
    headings: Sequence[str],
    title: str,
    note: str,
    families: Sequence[str],
) -> Layout:
    """Where everything goes: every text is measured, and what stands beside it keeps its distance."""
    columns, across = len(rows[0]), max(len(rows), len(rows[0]))
    widest = max(fonts.widths(labels, LABEL, families)) + 2 * LABEL_GAP
    cell = cell_size(len(labels), across, sum(len(row) for row in rows), widest)
    label_size = min(LABEL, cell * 72 / 1.2) if cell >= READABLE else 0.0
    label_width = widest * label_size / LABEL
    turned = label_width > cell
    side = cell * len(labels)
    scale = max(1.0, side * across / ROOMY)
    caption_size = CAPTION * min(scale, side)

    captions = [line for row in rows for panel in row for line in panel.caption.split("\n")]
    gap = GAP * scale
    column = max(side, *fonts.widths(captions, caption_size, families)) + gap
    left = MARGIN + LINE * WORD * scale + LABEL_GAP + (LINE * caption_size if headings else 0) + label_width
    right = (BAR_GAP + BAR_WIDTH + BAR_WORDS) * scale + MARGIN
    width = max(NARROWEST, left + columns * column - gap + right)
    left += (width - (left + columns * column - gap + right)) / 2
    lefts = [left + number * column + (column - gap - side) / 2 for number in range(columns)]

    titles = wrap_line(title, TITLE * scale, width - 2 * MARGIN, families)
    notes = wrap_line(note, WORD * scale, width - 2 * MARGIN, families)
    y = MARGIN + LINE * scale * (TITLE * len(titles) + WORD * len(notes)) + GAP
    row_height = max([side, *fonts.widths(headings, caption_size, families)])
    tops = []
    for row in rows:
        y += LINE * caption_size * max(len(panel.caption.splitlines()) for panel in row)
        tops.append(y + (row_height - side) / 2)
        y += row_height + gap
    y += (label_width if turned else LINE * label_size) + LABEL_GAP + LINE * WORD * scale - gap
    return Layout(
        width=width,
        height=max(y, tops[0] + SHORTEST_BAR * scale) + MARGIN,
        lefts=lefts,
        tops=tops,
        side=side,
        cell=cell,
        label_size=label_size,
        label_width=label_width,
        turned=turned,
        caption_size=caption_size,
        scale=scale,
        words=left - label_width - LABEL_GAP,
        bar=left + columns * column - gap + BAR_GAP * scale,
        title=titles,
        note=notes,
    )


def cell_size(tokens: int, across: int, panels: int, label_width: float) -> float:
    """The side of a token's cell, for so many panels, `across` of them along the grid's longer side."""
    side = min(ONE_PANEL, ALL_PANELS / across)
    cell = min(LARGE_CELL if panels <= FEW else GRID_CELL, side / tokens)
    if cell < label_width <= LEVEL_CELL and across * tokens * label_width <= LEVEL_GRID:
        cell = label_width
    if panels <= FEW and across * tokens * READABLE <= LARGEST_GRID:
        cell = max(cell, READABLE)
    return max(cell, SMALLEST_PANEL / tokens)


def wrap_line(text: str, size: float, width: float, families: Sequence[str]) -> list[str]:
    """`text` in lines that are not wider than `width` inches."""
    lines = []
    for line in text.splitlines():
        [needed] = fonts.widths([line], size, families)
        columns = len(line) if needed <= width else int(0.9 * len(line) * width / needed)
        lines += textwrap.wrap(line, max(columns, 1), break_on_hyphens=False)
    return [line.removesuffix(" ·").replace(NO_BREAK, " ") for line in lines]


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


def placed(layout: Layout, rows: Sequence[Sequence[Panel]]) -> Iterator[tuple[Panel, float, float]]:
    """Every panel with its left and top."""
    for row, top in zip(rows, layout.tops, strict=True):
        for panel, left in zip(row, layout.lefts, strict=False):
            yield panel, left, top


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
