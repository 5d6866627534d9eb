"""A glyph a head: the pattern that takes most of its weight, and beside it a bar for its entropy."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from attncli.analysis.patterns import HeadSummary, counted_queries, summarise
from attncli.record import AttentionRecord
from attncli.render.terminal.canvas import Canvas, joined
from attncli.render.terminal.headings import heading

GLYPHS = {"self": "↺", "previous": "←", "next": "→", "first": "⇤", "separator": "■", "broad": "·"}
ASCII_GLYPHS = {"self": "o", "previous": "<", "next": ">", "first": "^", "separator": "s", "broad": "."}
PATTERN_COLOURS = {
    "self": "cyan", "previous": "green", "next": "yellow", "first": "magenta", "separator": "blue", "broad": "white",
}  # fmt: skip
BARS = "▁▂▃▄▅▆▇█"
CELL = 2  # columns of a glyph and its bar
CELLS = (4, 3, 2)  # and of what stands before them, from the widest
APART = 2  # columns between layers beside each other


class Layout(NamedTuple):
    """How heads stand in a grid: columns a head, heads a block, and blocks of layers beside each other."""

    cell: int
    heads: int
    across: int


def glyph_table(record: AttentionRecord, canvas: Canvas, lines: int | None = None) -> list[Text]:
    """The heads of a layer in a line, and below what the glyphs mean.

    lines: how many there is room for. Where all would take more, layers stand beside each other, as far as the width
    allows. Where it does not allow all heads of one, the others follow below.
    """
    below = meaning(canvas)
    layout = layout_of(record, canvas, None if lines is None else lines - len(below) - 2)
    table = [heading(record, f"{len(record.layers)} layers x {len(record.heads)} heads", canvas)]
    summaries = summarise(record)
    drawn = {layer: layer_cells(record, layer, summaries, canvas) for layer in record.layers}
    rows = -(-len(record.layers) // layout.across)
    columns = [record.layers[start : start + rows] for start in range(0, len(record.layers), rows)]
    width = label_width(layout) + layout.heads * layout.cell + APART
    for start in range(0, len(record.heads), layout.heads):
        part = slice(start, start + layout.heads)
        label = "head" if layout.across == 1 else ""
        numbers = label.ljust(label_width(layout)) + head_numbers(record.heads[part], layout.cell)
        table.append(Text("".join(numbers.ljust(width) for _ in columns).rstrip(), style=canvas.faint))
        for row in range(rows):
            line = Text()
            for number, layers in enumerate(columns):
                if row < len(layers):
                    line.pad_right(number * width - line.cell_len)
                    label = f"layer {layers[row]}" if layout.across == 1 else f"{layers[row]:>3}"
                    line.append(label.ljust(label_width(layout)))
                    for cell in drawn[layers[row]][part]:
                        line.append(" " * (layout.cell - CELL)).append_text(cell)
            table.append(line)
    return [*table, *below]


def layout_of(record: AttentionRecord, canvas: Canvas, lines: int | None) -> Layout:
    """The first that fits: as few layers beside each other as the lines of layers ask for, then as wide apart as there is room;
    where there is no such, as many beside each other as fit.
    """
    heads, layers = len(record.heads), len(record.layers)
    fitting = [
        layout
        for across in range(1, layers + 1 if lines is not None else 2)
        for cell in CELLS
        if across * grid_width(layout := Layout(cell, heads, across)) <= canvas.width + APART
    ]
    if not fitting:
        room = max(1, (canvas.width - label_width(Layout(CELLS[1], heads, 1))) // CELLS[1])
        return Layout(CELLS[1], room, 1)
    few = [layout for layout in fitting if lines is None or -(-layers // layout.across) <= lines]
    return few[0] if few else max(fitting, key=lambda layout: (layout.across, layout.cell))


def grid_width(layout: Layout) -> int:
    """Columns of a block of layers, and of what stands between it and the next."""
    return label_width(layout) + layout.heads * layout.cell + APART


def label_width(layout: Layout) -> int:
    """Columns of what stands before a layer's heads."""
    if layout.across == 1:
        return len("layer 10 ")
    return len(" 10") if layout.cell > CELL else len(" 10 ")


def head_numbers(heads: Sequence[int], cell: int) -> str:
    """Above the heads; every second one's where there is no room for more."""
    if cell > CELL:
        return "".join(f"{head:>{cell}}" for head in heads)
    return "".join(f"{head:<{2 * cell}}" for head in heads[::2])


def layer_cells(
    record: AttentionRecord, layer: int, summaries: Mapping[tuple[int, int], HeadSummary], canvas: Canvas
) -> list[Text]:
    """Of every head of a layer its glyph and its bar."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    most = math.log(max(possible_keys(record, layer), 2))
    cells = []
    for head in record.heads:
        summary = summaries[layer, head]
        glyph = Text(glyphs[summary.label], PATTERN_COLOURS[summary.label] if canvas.colour else "")
        cells.append(glyph.append(bar(summary.entropy / most, canvas), "none"))
    return cells


def meaning(canvas: Canvas) -> list[Text]:
    """What glyphs and bars mean, in as few lines as fit."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    meant = [f"{glyph} {label}" for label, glyph in glyphs.items()]
    meant.append(f"entropy {bar(0, canvas)} low {bar(1, canvas)} high")
    return [Text(line) for line in joined(meant, "  ", canvas.width)]


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
