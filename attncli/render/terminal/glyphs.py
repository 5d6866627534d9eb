"""A glyph a head: the pattern that takes most of its weight, and beside it a bar for its entropy."""

import math

import numpy as np
from rich.text import Text

from attncli.analysis.patterns import counted_queries, summarise
from attncli.record import AttentionRecord
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.headings import heading
from attncli.render.terminal.tables import fold, head_grid

GLYPHS = {"self": "↺", "previous": "←", "next": "→", "first": "⇤", "separator": "■", "broad": "·"}
ASCII_GLYPHS = {"self": "o", "previous": "<", "next": ">", "first": "^", "separator": "s", "broad": "."}
PATTERN_COLOURS = {
    "self": "cyan", "previous": "green", "next": "yellow", "first": "magenta", "separator": "blue", "broad": "white",
}  # fmt: skip
WIDTH = 4  # columns of a head
BARS = "▁▂▃▄▅▆▇█"


def glyph_table(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """One line a layer, and below what the glyphs mean."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    summaries = summarise(record)
    lines = [heading(record, f"{len(record.layers)} layers x {len(record.heads)} heads", canvas)]
    most = [math.log(max(possible_keys(record, layer), 2)) for layer in record.layers]

    def cell(row: int, place: int) -> Text:
        summary = summaries[record.layers[row], record.heads[place]]
        style = PATTERN_COLOURS[summary.label] if canvas.colour else ""
        return Text.assemble("  ", (glyphs[summary.label], style), bar(summary.entropy / most[row], canvas))

    lines += head_grid(record.layers, record.heads, cell, canvas, WIDTH)
    meaning = "  ".join(f"{glyph} {label}" for label, glyph in glyphs.items())
    ends = f"{bar(0, canvas)} looks at one token, {bar(1, canvas)} at all alike"
    below = fold(f"{meaning}\nbeside it the entropy: {ends}", canvas.width)
    return [*lines, Text(), *map(Text, below)]


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
