"""Statistics of a corpus as a picture: entropy by layer, where the weight goes by layer, all heads; and, where they
were asked for, the distances between heads with their clusters.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError, install_hint
from attncli.corpus.statistics import BROAD, PATTERNS, Statistics
from attncli.corpus.sums import Distances
from attncli.render.captions.statistics import figure_text, top_of
from attncli.render.figures import fonts
from attncli.render.figures.colours import COLOURS
from attncli.render.figures.drawing import FAINT, INK, drawing
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
        rows: Any = figure.add_gridspec(2, 1, height_ratios=[ROW, heads_row])
        upper, lower = rows[0], rows[1]
        left, right = upper.subgridspec(1, 2).subplots()
        draw_entropy(left, statistics)
        draw_shares(right, statistics)
        if distances is None:
            draw_heads(figure.add_subplot(lower), statistics, by)
        else:
            left, right = lower.subgridspec(1, 2).subplots()
            draw_heads(left, statistics, by)
            draw_distances(right, distances)
            name_heads(figure, right, distances, statistics.model.heads)
    return figure


def draw_entropy(axes: Axes, statistics: Statistics) -> None:
    """Each head's entropy above its layer, as in Clark et al. 2019, figure 4; the line is their mean."""
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
        axes.plot(
            layers, values.mean(axis=1), "-o", color=colour, markersize=3.5, linewidth=1.4, label=name, clip_on=False
        )
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
    bar.set_label(unit_of(by), size=SMALL, color=FAINT)
    bar.ax.tick_params(labelsize=SMALL, colors=INK)
    bar.set_ticks([0, top], labels=["0", figure_text(top, by)])
    letters = [f"{letter} {name.replace('_', ' ')}" for name, letter in LETTERS.items() if letter] + ["nothing: broad"]
    lines = "   ".join(letters[:4]) + "\n" + "   ".join(letters[4:])  # one line is wider than the heads may be
    axes.text(0, -0.16, lines, size=SMALL, color=FAINT, transform=axes.transAxes, va="top")


def draw_distances(axes: Axes, distances: Distances) -> None:
    """The heads in a plane, each beside its layer and number, coloured by its cluster, whose size the legend has."""
    points, clusters = np.asarray(distances.embedding), np.asarray(distances.clusters)
    for cluster in np.unique(clusters):
        inside = points[clusters == cluster]
        name = f"cluster {cluster} ({len(inside)} {'head' if len(inside) == 1 else 'heads'})"
        axes.plot(
            *inside.T, "o", color=head_colour(cluster), markersize=4, markeredgewidth=0, clip_on=False, label=name
        )
    axes.margins(0.08)
    dress(axes, "Heads by their distance", "", "")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(fontsize=SMALL, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3)


def name_heads(figure: Figure, axes: Axes, distances: Distances, heads: int) -> None:
    """Write beside every head which it is: no name lies on another, and lines lead to those that are further away.

    Where not all have room, the picture says of how many the name is missing. Raises RequestError when textalloc is not
    installed.
    """
    try:
        import textalloc
    except ImportError as error:
        raise RequestError(f"a picture of distances needs textalloc: {install_hint('stats')}") from error
    figure.draw_without_rendering()  # which lays everything out: names take room in pixels
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


def unit_of(by: str) -> str:
    """What the colour of a figure means."""
    return (
        f"{by} (nats)"
        if by == "entropy"
        else f"{by} (tokens)"
        if by == "distance"
        else f"share of the weight: {by}".replace("_", " ")
    )


def dress(axes: Axes, title: str, across: str, up: str) -> None:
    """The title, the names of the axes and the lines that all parts share."""
    axes.set_title(title, size=LABEL, color=INK)
    axes.set_xlabel(across, size=LABEL, color=INK)
    axes.set_ylabel(up, size=LABEL, color=INK)
    axes.tick_params(labelsize=SMALL, colors=INK, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(linewidth=0.6, edgecolor=FAINT)
