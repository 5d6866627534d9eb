"""Draw the atlas of a corpus: entropy by layer, shares of the weight by layer, all heads; and the distances between
heads with their clusters, if they were counted.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.analysis.patterns import BROAD, PATTERNS
from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError, install_hint
from attncli.corpus.statistics import Statistics
from attncli.corpus.sums import Distances
from attncli.features.stats import Heads, figure_text
from attncli.record.display import HEAD_COLOURS, head_colour
from attncli.report.figure import fonts
from attncli.report.figure.drawing import FAINT, INK, drawing
from attncli.report.figure.fonts import clean
from attncli.report.figure.maps import COLOURS
from attncli.report.figure.record import short_name

WIDTH, ROW = 11.0, 4.2  # inches
TITLE, LABEL, SMALL, TINY = 11.0, 9.0, 7.0, 5.5  # points
ABOVE = 0.8  # the length of a line above a layer, as a share of the way to the next
LETTERS = {
    "self": "s", "previous": "←", "next": "→", "first": "f", "separator": "■", "punctuation": ".", "same_word": "=",
    BROAD: "",
}  # fmt: skip


def draw_atlas(part: Heads) -> Figure:
    """Draw the figure. A Notice names characters that no font on this machine has."""
    statistics = part.statistics
    title = " · ".join([clean(short_name(statistics.model.shown)), *statistics.parts])
    distances = statistics.distances
    with drawing(fonts.families([title, *LETTERS.values()])):
        heads_row = max(0.28 * statistics.model.layers + 1.3, ROW if distances else 0.0)
        figure = Figure(figsize=(WIDTH, ROW + heads_row), layout="constrained")
        figure.suptitle(title, size=TITLE, color=INK, parse_math=False)
        rows: Any = figure.add_gridspec(2, 1, height_ratios=[ROW, heads_row])
        upper, lower = rows[0], rows[1]
        left, right = upper.subgridspec(1, 2).subplots()
        _draw_entropy(left, statistics)
        _draw_shares(right, statistics)
        if distances is None:
            _draw_heads(figure.add_subplot(lower), part)
        else:
            left, right = lower.subgridspec(1, 2).subplots()
            _draw_heads(left, part)
            _draw_distances(right, distances)
            _name_heads(figure, right, distances, statistics.model.heads)
    return figure


def _draw_entropy(axes: Axes, statistics: Statistics) -> None:
    """Draw each head's entropy above its layer, as in Clark et al. 2019, figure 4; the line is their mean."""
    values = statistics.figure("entropy")
    layers = np.arange(len(values))
    for head in range(values.shape[1]):
        axes.plot(
            layers,
            values[:, head],
            "o",
            color=HEAD_COLOURS[0],
            alpha=0.55,
            markersize=5,
            markeredgewidth=0,
            clip_on=False,
        )
    axes.plot(layers, values.mean(axis=1), color=INK, linewidth=1.2, label="mean of the layer")
    _draw_limit(axes, statistics.entropy_limit)
    axes.set_ylim(0, statistics.entropy_limit.max() * 1.08)
    _dress(axes, "Entropy of each head", "layer", "entropy (nats)")
    axes.set_xticks(layers)
    axes.legend(fontsize=SMALL, frameon=False)


def _draw_limit(axes: Axes, limit: Doubles) -> None:
    """Draw the entropy of uniform attention: one line, or one per layer if some see further than others."""
    style: Any = {"color": FAINT, "linewidth": 0.9, "linestyle": "--", "label": "uniform attention"}
    if limit.min() == limit.max():
        axes.axhline(limit[0], **style)
    else:
        layers = np.arange(len(limit))
        axes.hlines(limit, layers - ABOVE / 2, layers + ABOVE / 2, **style)


def _draw_shares(axes: Axes, statistics: Statistics) -> None:
    """Draw the mean share of a layer's weight on each pattern, as in Clark et al. 2019, figure 2."""
    layers = np.arange(statistics.model.layers)
    for number, pattern in enumerate(PATTERNS):
        values = statistics.figure(pattern)
        name, colour = pattern.replace("_", " "), head_colour(number)
        axes.plot(
            layers, values.mean(axis=1), "-o", color=colour, markersize=3.5, linewidth=1.4, label=name, clip_on=False
        )
    axes.set_ylim(bottom=0)
    _dress(axes, "Where the weight goes (mean of a layer's heads)", "layer", "share of the weight")
    axes.set_xticks(layers)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_heads(axes: Axes, part: Heads) -> None:
    """Draw all heads, coloured by one figure, with the letter of their pattern."""
    statistics, by, top = part.statistics, part.by, part.top
    values = statistics.figure(by)
    picture = axes.imshow(values, cmap=COLOURS, vmin=0, vmax=top, aspect="auto")
    for one in statistics.heads:
        colour = "white" if values[one.layer, one.head] > 0.55 * top else INK
        axes.text(one.head, one.layer, LETTERS[one.label], size=LABEL, color=colour, ha="center", va="center")
    _dress(axes, f"All heads by {by.replace('_', ' ')}", "head", "layer")
    axes.set_xticks(range(statistics.model.heads))
    axes.set_yticks(range(statistics.model.layers))
    bar = axes.figure.colorbar(picture, ax=axes)
    bar.set_label(_unit_of(by), size=SMALL, color=FAINT)
    bar.ax.tick_params(labelsize=SMALL, colors=INK)
    bar.set_ticks([0, top], labels=["0", figure_text(top, by)])
    letters = [f"{letter} {name.replace('_', ' ')}" for name, letter in LETTERS.items() if letter] + ["nothing: broad"]
    lines = "   ".join(letters[:4]) + "\n" + "   ".join(letters[4:])  # one line is wider than the heads may be
    axes.text(0, -0.16, lines, size=SMALL, color=FAINT, transform=axes.transAxes, va="top")


def _draw_distances(axes: Axes, distances: Distances) -> None:
    """Draw the heads in a plane, coloured by their clusters, whose sizes are in the legend."""
    points, clusters = np.asarray(distances.embedding), np.asarray(distances.clusters)
    for cluster in np.unique(clusters):
        inside = points[clusters == cluster]
        name = f"cluster {cluster} ({len(inside)} {'head' if len(inside) == 1 else 'heads'})"
        axes.plot(
            *inside.T, "o", color=head_colour(cluster), markersize=4, markeredgewidth=0, clip_on=False, label=name
        )
    axes.margins(0.08)
    _dress(axes, "Heads by their distance", "", "")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(fontsize=SMALL, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3)


def _name_heads(figure: Figure, axes: Axes, distances: Distances, heads: int) -> None:
    """Write its name beside every head: no name lies on another, and lines lead to names that are further away.

    A note counts the names that have no room. Raises RequestError if textalloc is not installed.
    """
    try:
        import textalloc
    except ImportError as error:
        raise RequestError(f"a picture of distances needs textalloc: {install_hint('stats')}") from error
    figure.draw_without_rendering()  # lays everything out: names are placed in pixels
    figure.set_layout_engine("none")
    x, y = np.asarray(distances.embedding).T
    colours = [head_colour(cluster) for cluster in distances.clusters]
    names = [f"{number // heads}.{number % heads}" for number in range(len(colours))]
    room: Any = {"margin": 0.002, "min_distance": 0.006, "max_distance": 0.15, "draw_all": False}
    drawn = textalloc.allocate(
        axes,
        x,
        y,
        names,
        x_scatter=x,
        y_scatter=y,
        textsize=TINY,
        textcolor=colours,
        linecolor=colours,
        linewidth=0.4,
        **room,
    )
    missing = len(names) - sum(text is not None for text in drawn[2])
    if missing:
        note = f"no room for {missing} of {len(names)} names"
        axes.text(1, 1, note, size=SMALL, color=FAINT, transform=axes.transAxes, ha="right", va="bottom")


def _unit_of(by: str) -> str:
    """Describe the colour of a figure."""
    return (
        f"{by} (nats)"
        if by == "entropy"
        else f"{by} (tokens)"
        if by == "distance"
        else f"share of the weight: {by}".replace("_", " ")
    )


def _dress(axes: Axes, title: str, across: str, up: str) -> None:
    """Set the title, the names of the axes and the lines that all panels share."""
    axes.set_title(title, size=LABEL, color=INK)
    axes.set_xlabel(across, size=LABEL, color=INK)
    axes.set_ylabel(up, size=LABEL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(linewidth=0.6, edgecolor=FAINT)
