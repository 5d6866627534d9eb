"""A glyph a head: the pattern that takes most of its weight, and beside it a bar for its entropy."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from rich.text import Text

from attncli.analysis.patterns import HeadSummary, counted_queries, summarise
from attncli.record import AttentionRecord
from attncli.report.canvas import Canvas
from attncli.report.terminal import fold, head_grid, heading

GLYPHS = {
    "self": "↺", "previous": "←", "next": "→", "first": "⇤", "separator": "■", "punctuation": ",", "same_word": "=",
    "broad": "·",
}  # fmt: skip
ASCII_GLYPHS = GLYPHS | {"self": "o", "previous": "<", "next": ">", "first": "^", "separator": "s", "broad": "."}
PATTERN_COLOURS = {
    "self": "cyan", "previous": "green", "next": "yellow", "first": "magenta", "separator": "blue",
    "punctuation": "red", "same_word": "bright_cyan", "broad": "white",
}  # fmt: skip
BARS = "▁▂▃▄▅▆▇█"
WIDTHS = (4, 3, 2)  # columns of a head, of which its glyph and its bar take two


def glyph_table(record: AttentionRecord, canvas: Canvas, lines: int | None = None) -> list[Text]:
    """A layer in a line, and below what the glyphs mean.

    lines: how many there is room for; where all would take more, layers stand beside each other (`head_grid`).
    """
    summaries = summarise(record)
    cell = glyph_cell(record, summaries, canvas)
    title = heading(record, f"{len(record.layers)} layers x {len(record.heads)} heads", canvas)
    meant = meaning({summary.label for summary in summaries.values()}, canvas)
    room = None if lines is None else lines - len(meant) - 2
    return [title, *head_grid(record.layers, record.heads, cell, canvas, WIDTHS, room), *meant]


def glyph_cell(
    record: AttentionRecord, summaries: Mapping[tuple[int, int], HeadSummary], canvas: Canvas
) -> Callable[[int, int], Text]:
    """What stands for a head in a grid, by the places of its layer and itself: its glyph, and its entropy's bar."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    most = [math.log(max(possible_keys(record, layer), 2)) for layer in record.layers]

    def cell(row: int, place: int) -> Text:
        summary = summaries[record.layers[row], record.heads[place]]
        style = PATTERN_COLOURS[summary.label] if canvas.colour else ""
        return Text.assemble((glyphs[summary.label], style), bar(summary.entropy / most[row], canvas))

    return cell


def meaning(labels: set[str], canvas: Canvas) -> list[Text]:
    """What the glyphs of these labels and the bars mean, in as few lines as fit."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    meant = "  ".join(f"{glyph} {label.replace('_', ' ')}" for label, glyph in glyphs.items() if label in labels)
    return [Text(line) for line in fold(f"{meant}  entropy {bar(0, canvas)} low {bar(1, canvas)} high", canvas.width)]


def possible_keys(record: AttentionRecord, layer: int) -> int:
    """To how many keys a query of this layer may attend at most, [PAD] not counted: the entropy is no more than its
    logarithm.
    """
    rows = record.mask_of(layer)[counted_queries(record, layer)]
    return int(rows[:, ~np.array(record.keys.padding)].sum(axis=1).max(initial=0))


def bar(share: float, canvas: Canvas) -> str:
    """0 to 1 as the height of a bar, or as a digit."""
    steps = BARS if canvas.unicode else "0123456789"
    return steps[min(int(max(share, 0.0) * len(steps)), len(steps) - 1)]
