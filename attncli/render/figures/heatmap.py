"""Attention records as pictures.

`heatmap` says what a picture shows: which maps, of which tokens, under which words. `attncli.render.figures.matrix` and
`attncli.render.figures.lines` draw it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from attncli.analysis.filters import kept
from attncli.analysis.terms import SCORE, score_terms
from attncli.analysis.words import merge_words
from attncli.base.arrays import Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.record import AttentionRecord
from attncli.record.selection import select_token
from attncli.render.figures.drawing import INK
from attncli.render.figures.grid import Grid, wrap_panels
from attncli.render.figures.lines import line_grid
from attncli.render.figures.matrix import Panel, panel_grid
from attncli.render.figures.options import Look, What
from attncli.render.figures.strands import Strands
from attncli.render.figures.titles import describe, left_out
from attncli.render.hidden import drawn
from attncli.render.palette import head_colour
from attncli.report.captions import notes
from attncli.text.tokens import Tokens


def heatmap(record: AttentionRecord, what: What = What(), look: Look = Look()) -> Figure:
    """The maps of a record: one large, several as a grid; of several layers and heads, layers are the rows.

    Raises RequestError when `what` asks for a token that is not there or leaves nothing to draw, or the width is too
    small. A Notice names characters that no font on this machine has.
    """
    if what.words:
        record = merge_words(record)
    queries, keys = kept(record.tokens, what.special, what.segments, record.keys)
    held = None if what.query is None else held_place(what.query, record.tokens, queries)
    weights = record.weights.mean(axis=1, keepdims=True) if what.mean else record.weights
    weights = drawn(weights, record.masks[:, None])
    if len(queries) < len(record.tokens) or len(keys) < len(record.keys):
        weights = weights[:, :, queries][..., keys]
    table = len(record.layers) > 1 and weights.shape[1] > 1
    grid = Grid(
        tokens=[record.tokens.shown[place] for place in queries],
        keys=[record.keys.shown[place] for place in keys],
        numbers=(queries, keys),
        headings=[f"layer {number}" for number in record.layers] if table else [],
        title=describe(record, what) if look.title is None else look.title,
        note="; ".join(filter(None, (left_out(record, what), *notes(record)))),
        held=held,
        vmax=look.vmax if look.scale is None else 1.0,
        paper=look.paper,
    )
    if what.terms:
        parts = {name: np.float32(part[queries][:, keys]) for name, part in score_terms(record).items()}
        signed = [Panel(printable(name), part) for name, part in parts.items()]
        return panel_grid(wrap_panels(signed), grid, cmap=look.cmap, scale=SCORE, signed=True)
    heads = [] if what.mean else record.heads
    if look.style == "lines":
        return as_lines(record, weights, heads, grid)
    scale = "attention weight" if record.measure == "weight" else record.measure
    maps = [
        [Panel(caption, weights[layer, head]) for caption, layer, head in row] for row in arranged(record.layers, heads)
    ]
    apart = replace(grid, apart=look.scale == "head")
    return panel_grid(maps, apart, cmap=look.cmap, scale=scale, root=look.scale == "root")


def as_lines(record: AttentionRecord, weights: Floats, heads: Sequence[int], grid: Grid) -> Figure:
    """The heads of one layer share a panel, each in its colour; several layers are a grid."""
    colours = [head_colour(number) for number in heads] or [INK]
    if len(record.layers) > 1:
        strands = [
            [Strands(caption, weights[layer, [head]], [colours[head]]) for caption, layer, head in row]
            for row in arranged(record.layers, heads)
        ]
        return line_grid(strands, grid, measure=record.measure)
    names = [f"{record.layers[0]}.{number}" for number in heads] if len(heads) > 1 else []
    legend = dict(zip(names, colours, strict=False))
    return line_grid([[Strands("", weights[0], colours)]], grid, colours=legend, measure=record.measure)


def arranged(layers: Sequence[int], heads: Sequence[int]) -> list[list[tuple[str, int, int]]]:
    """Rows of panels: the words above each, and the places of its layer and head in the record.

    Layers are rows and heads columns where there are several of both; no heads are one without a name.
    """
    if len(layers) > 1 and len(heads) > 1:
        return [
            [(f"head {number}" if layer == 0 else "", layer, head) for head, number in enumerate(heads)]
            for layer in range(len(layers))
        ]
    if len(layers) > 1:
        return wrap_panels([(f"layer {number}", layer, 0) for layer, number in enumerate(layers)])
    if len(heads) > 1:
        return wrap_panels([(f"head {number}", 0, head) for head, number in enumerate(heads)])
    return [[("", 0, 0)]]


def held_place(query: str | int, tokens: Tokens, queries: Sequence[int]) -> int:
    """The place, among the queries that are drawn, of the one named. Raises RequestError when it is not there."""
    token = select_token(str(query), tokens)
    if token not in queries:
        raise RequestError(
            f"query {quoted(str(query))}: {quoted(tokens.shown[token])} is not drawn as a query: --segments or "
            "--no-special leaves it out"
        )
    return queries.index(token)
