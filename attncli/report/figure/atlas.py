"""Draw the atlas of a corpus: entropy by layer, shares of the weight by layer, and all heads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from attncli.analysis.patterns import GLYPHS, PATTERNS
from attncli.base import choices
from attncli.corpus.statistics import Statistics
from attncli.record.display import HEAD_COLOURS, dashes, head_colour
from attncli.report.figure import fonts, title_of
from attncli.report.figure.drawing import FAINT, INK, dark_ink, drawing
from attncli.report.figure.fonts import NO_BREAK, clean, wrap_line
from attncli.report.figure.layout import LINE
from attncli.report.figure.maps import COLOURS
from attncli.report.paper import Paper, larger, too_narrow
from attncli.report.parts import in_cell

WIDTH = 11.0  # inches
BESIDE = 6.0  # inches: in a narrower picture the panels stand below each other
PANEL = 0.75  # the height of a panel, as a share of its width
SMALL = 0.7  # of the labels' size
ABOVE = 0.8  # the length of a line above a layer, as a share of the way to the next
SIDES = 1.0  # inches that the numbers and the colour bar beside the heads need
MOST_NUMBERS = 12  # along an axis


def draw_atlas(statistics: Statistics, by: choices.Figure, top: float, title: Sequence[str], paper: Paper) -> Figure:
    """Draw the figure, with panels below each other where it is narrow.

    by: the figure that colours the heads. top: its value with the last colour.

    A Notice names characters that no font on this machine has. Raises RequestError for too small a width.
    """
    heading = clean(title_of(title))
    families = fonts.families([heading, *GLYPHS.values()], paper.font)
    needed = 2 * paper.margin + statistics.model.heads * max(fonts.widths(["00"], paper.note, families)) + SIDES
    width = WIDTH if paper.width is None else paper.width
    if width < needed:
        raise too_narrow(paper, larger(paper, needed))
    with drawing(families):
        across, rows = (2, 2) if width >= BESIDE else (1, 3)
        high = PANEL * width / across
        lines = wrap_line(heading, paper.heading, width - 2 * paper.margin, families)
        pads = ConstrainedLayoutEngine(w_pad=paper.margin, h_pad=paper.margin)
        figure = Figure(figsize=(width, high * rows + LINE * paper.heading * len(lines)), layout=pads)
        figure.suptitle("\n".join(lines), size=paper.heading, color=INK, parse_math=False)
        places: Any = figure.add_gridspec(rows, across)
        _draw_entropy(figure.add_subplot(places[0, 0]), statistics, paper)
        _draw_shares(figure.add_subplot(places[divmod(1, across)]), statistics, paper)
        _draw_heads(figure.add_subplot(places[rows - 1, :]), statistics, by, top, paper, families)
    return figure


def _draw_entropy(axes: Axes, statistics: Statistics, paper: Paper) -> None:
    """Draw each head's entropy above its layer, as in Clark et al. 2019, figure 4; the line is their mean."""
    values = statistics.figure("entropy")
    layers = np.arange(len(values))
    axes.plot(
        layers, values, "o", color=HEAD_COLOURS[0], alpha=0.55, markersize=5, markeredgewidth=0, clip_on=False
    )  # a series per head
    axes.plot(layers, values.mean(axis=1), color=INK, linewidth=1.2, label="mean of the layer")
    limit = statistics.entropy_limit
    style: Any = {"color": FAINT, "linewidth": 0.9, "linestyle": "--", "label": "uniform attention"}
    if limit.min() == limit.max():
        axes.axhline(limit[0], **style)
    else:  # some layers see further than others
        axes.hlines(limit, layers - ABOVE / 2, layers + ABOVE / 2, **style)
    axes.set_ylim(0, limit.max() * 1.08)
    _dress(axes, "Entropy of each head", "layer", "entropy (nats)", paper)
    _mark(axes.xaxis, len(layers))
    _draw_legend(axes, paper, 1)


def _draw_shares(axes: Axes, statistics: Statistics, paper: Paper) -> None:
    """Draw the mean share of a layer's weight on each pattern, as in Clark et al. 2019, figure 2."""
    layers = np.arange(statistics.model.layers)
    for number, pattern in enumerate(PATTERNS):
        values = statistics.figure(pattern)
        style: Any = {"color": head_colour(number), "linestyle": dashes(number), "label": pattern.replace("_", " ")}
        axes.plot(layers, values.mean(axis=1), marker="o", markersize=3, linewidth=1.4, clip_on=False, **style)
    axes.set_ylim(bottom=0)
    _dress(axes, "Where the weight goes", "layer", "mean share of the weight", paper)
    _mark(axes.xaxis, len(layers))
    _draw_legend(axes, paper, 3)


def _draw_heads(
    axes: Axes, statistics: Statistics, by: choices.Figure, top: float, paper: Paper, families: Sequence[str]
) -> None:
    """Draw all heads, coloured by one figure, with the glyph of their pattern."""
    values = statistics.figure(by)
    picture = axes.imshow(values, cmap=COLOURS, vmin=0, vmax=top, aspect="auto")
    dark = dark_ink(picture.to_rgba(values))
    for one in statistics.heads:
        colour = INK if dark[one.layer, one.head] else "white"
        axes.text(one.head, one.layer, GLYPHS[one.label], size=paper.note, color=colour, ha="center", va="center")
    labels = {one.label for one in statistics.heads}
    meanings = [f"{glyph}{NO_BREAK}{name.replace('_', NO_BREAK)}" for name, glyph in GLYPHS.items() if name in labels]
    width = axes.figure.get_size_inches()[0] - SIDES - 2 * paper.margin  # type: ignore[union-attr]
    lines = wrap_line("most weight: " + "   ".join(meanings), paper.note, width, families)
    _dress(axes, "\n".join([f"All heads by {by.replace('_', ' ')}", *lines]), "head", "layer", paper)
    _mark(axes.xaxis, statistics.model.heads)
    _mark(axes.yaxis, statistics.model.layers)
    bar = axes.figure.colorbar(picture, ax=axes)
    bar.ax.tick_params(labelsize=_small(paper), colors=INK)
    bar.set_ticks([0, top], labels=["0", in_cell(top)])
    style: Any = {"size": _small(paper), "color": FAINT, "rotation": 90, "va": "center", "transform": bar.ax.transAxes}
    units = {"entropy": "entropy (nats)", "distance": "distance (tokens)"}
    bar.ax.text(1.3, 0.5, units.get(by, f"share of the weight: {by}".replace("_", " ")), **style)


def _draw_legend(axes: Axes, paper: Paper, columns: int) -> None:
    """Draw the legend of a panel below it."""
    lines = 3.8 if axes.get_xlabel() else 1.5  # between the panel and the legend
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": lines}
    axes.legend(fontsize=_small(paper), frameon=False, ncols=columns, columnspacing=1.0, **below)


def _small(paper: Paper) -> float:
    """Return the points of the words in a panel."""
    return max(SMALL * paper.label, paper.smallest)


def _mark(axis: Axis, count: int) -> None:
    """Number layers or heads, as many as have room."""
    axis.set_major_locator(MaxNLocator(min(count, MOST_NUMBERS), integer=True))


def _dress(axes: Axes, title: str, across: str, up: str, paper: Paper) -> None:
    """Set the title, the names of the axes and the lines that all panels share."""
    axes.set_title(title, size=paper.note, color=INK)
    axes.set_xlabel(across, size=_small(paper), color=INK)
    axes.set_ylabel(up, size=_small(paper), color=INK)
    axes.tick_params(labelsize=_small(paper), colors=INK, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(linewidth=0.6, edgecolor=FAINT)
