"""Statistics of a corpus as a picture: entropy by layer, where the weight goes by layer, all heads; and, where they
were asked for, the distances between heads with their clusters.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.analysis.distances import Distances
from attncli.analysis.statistics import BROAD, PATTERNS, Statistics
from attncli.base.arrays import Doubles
from attncli.render.captions.statistics import figure_text, top_of
from attncli.render.figures import fonts
from attncli.render.figures.drawing import FAINT, INK, drawing
from attncli.render.figures.matrix import COLOURS
from attncli.render.figures.texts import clean
from attncli.render.figures.titles import short_name
from attncli.render.palette import HEAD_COLOURS, head_colour

WIDTH, ROW = 11.0, 4.2  # inches
TITLE, LABEL, SMALL, TINY = 11.0, 9.0, 7.0, 5.5  # points
ABOVE = 0.8  # of the way from layer to layer: a line above one of them
LETTERS = {
    "self": "s", "previous": "←", "next": "→", "first": "f", "separator": "■", "punctuation": ".", "same_word": "=",
    BROAD: "",
}  # fmt: skip


def atlas(statistics: Statistics, by: str = "entropy") -> Figure:
    """The figure; `by` colours the heads. A Notice names characters that no font on this machine has."""
    title = " · ".join([clean(short_name(statistics.model.shown)), *statistics.parts])
    distances = statistics.distances
    with drawing(fonts.families([title, *LETTERS.values()])):
        heads_row = max(0.28 * statistics.model.layers + 1.3, ROW if distances else 0.0)
        figure = Figure(figsize=(WIDTH, ROW + heads_row), layout="constrained")
        figure.suptitle(title, size=TITLE, color=INK, parse_math=False)
        parts: Any = figure.subfigures(2, 1, height_ratios=[ROW, heads_row])
        upper, lower = parts
        left, right = upper.subplots(1, 2)
        draw_entropy(left, statistics)
        draw_shares(right, statistics)
        if distances is None:
            draw_heads(lower.subplots(), statistics, by)
        else:
            left, right = lower.subplots(1, 2)
            draw_heads(left, statistics, by)
            draw_distances(right, distances, statistics.model.heads)
    return figure


def draw_entropy(axes: Axes, statistics: Statistics) -> None:
    """Each head's entropy above its layer, as in Clark et al. 2019, figure 4; the line is their mean."""
    values = statistics.figure("entropy")
    layers = np.arange(len(values))
    for head in range(values.shape[1]):
        axes.plot(layers, values[:, head], "o", color=HEAD_COLOURS[0], alpha=0.55, markersize=5, markeredgewidth=0)
    axes.plot(layers, values.mean(axis=1), color=INK, linewidth=1.2, label="mean of the layer")
    draw_limit(axes, statistics.entropy_limit)
    axes.set_ylim(0, statistics.entropy_limit.max() * 1.08)
    dress(axes, "Entropy of each head", "layer", "entropy (nats)")
    axes.set_xticks(layers)
    axes.legend(fontsize=SMALL, frameon=False)


def draw_limit(axes: Axes, limit: Doubles) -> None:
    """What a head has that looks at all tokens alike: one line, or one a layer where they see differently far."""
    style: Any = {"color": FAINT, "linewidth": 0.9, "linestyle": "--", "label": "all tokens alike"}
    if limit.min() == limit.max():
        axes.axhline(limit[0], **style)
    else:
        layers = np.arange(len(limit))
        axes.hlines(limit, layers - ABOVE / 2, layers + ABOVE / 2, **style)


def draw_shares(axes: Axes, statistics: Statistics) -> None:
    """The mean share of a layer's weight on each pattern, as in Clark et al. 2019, figure 2."""
    layers = np.arange(statistics.model.layers)
    for number, pattern in enumerate(PATTERNS):
        values = statistics.figure(pattern)
        name, colour = pattern.replace("_", " "), head_colour(number)
        axes.plot(layers, values.mean(axis=1), "-o", color=colour, markersize=3.5, linewidth=1.4, label=name)
    axes.set_ylim(bottom=0)
    dress(axes, "Where the weight goes (mean of a layer's heads)", "layer", "share of the weight")
    axes.set_xticks(layers)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def draw_heads(axes: Axes, statistics: Statistics, by: str) -> None:
    """All heads, coloured by one figure, with the letter of their pattern."""
    values, top = statistics.figure(by), top_of(statistics, by)
    picture = axes.imshow(values, cmap=COLOURS, vmin=0, vmax=top, aspect="auto")
    for one in statistics.heads:
        colour = "white" if values[one.layer, one.head] > 0.55 * top else INK
        axes.text(one.head, one.layer, LETTERS[one.label], size=LABEL, color=colour, ha="center", va="center")
    dress(axes, f"All heads by {by.replace('_', ' ')}", "head", "layer")
    axes.set_xticks(range(statistics.model.heads))
    axes.set_yticks(range(statistics.model.layers))
    bar = axes.figure.colorbar(picture, ax=axes)
    bar.ax.tick_params(labelsize=SMALL, colors=INK)
    bar.set_ticks([0, top], labels=["0", figure_text(top, by)])
    letters = [f"{letter} {name.replace('_', ' ')}" for name, letter in LETTERS.items() if letter] + ["nothing: broad"]
    lines = "   ".join(letters[:4]) + "\n" + "   ".join(letters[4:])  # one line is wider than the heads may be
    axes.text(0, -0.16, lines, size=SMALL, color=FAINT, transform=axes.transAxes, va="top")


def draw_distances(axes: Axes, distances: Distances, heads: int) -> None:
    """The heads in a plane, each under its layer and number, coloured by its cluster."""
    for number, (x, y) in enumerate(distances.embedding):
        colour, name = head_colour(distances.clusters[number]), f"{number // heads}.{number % heads}"
        axes.plot(x, y, "o", color=colour, markersize=4, markeredgewidth=0)
        axes.annotate(name, (x, y), (2.5, 2.5), textcoords="offset points", size=TINY, color=colour)
    axes.margins(0.08)
    dress(axes, "Heads by their distance (colours are clusters)", "", "")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")


def dress(axes: Axes, title: str, across: str, up: str) -> None:
    """The title, the names of the axes and the lines that all parts share."""
    axes.set_title(title, size=LABEL, color=INK)
    axes.set_xlabel(across, size=LABEL, color=INK)
    axes.set_ylabel(up, size=LABEL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(linewidth=0.6, edgecolor=FAINT)
