"""Draw attention records: choose the maps, the tokens and the words above them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from attncli.base import choices
from attncli.base.arrays import Floats
from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted
from attncli.record import AttentionRecord
from attncli.record.display import SCORE, head_colour, hide_masked, in_stretches, notes, score_terms
from attncli.record.grouping import merge_words
from attncli.record.selection import check_segments, name_numbers, select_token, selected_places
from attncli.report.figure.drawing import INK
from attncli.report.figure.fonts import NO_BREAK, cut
from attncli.report.figure.layout import Grid, wrap_panels
from attncli.report.figure.lines import Strands, line_grid
from attncli.report.figure.maps import COLOURS, DrawnMap, colour_map, panel_grid
from attncli.report.paper import Paper

# --- options ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class What:
    """The part of a record that is drawn. It is checked as far as possible before there is a record.

    mean: draw one map per layer, the mean over the record's heads. special: False leaves out [CLS], [SEP] and [PAD].
    words: merge the tokens of a word. segments: "AB" has queries of the first text and keys of the second, and so on;
    or "all". query: the token whose row or lines stand out, "it", "it#2" (the second one) or its number, among the
    tokens of the text, or among its words if they are merged. terms: draw the scores of one head and their terms
    (`attncli.record.display`), instead of its weights.

    Raises RequestError for unknown segments.
    """

    mean: bool = False
    special: bool = True
    words: bool = False
    segments: str = "all"
    query: str | int | None = None
    terms: bool = False

    def __post_init__(self) -> None:
        check_segments(self.segments)


@dataclass(frozen=True)
class Appearance:
    """The appearance of a picture. It is checked as far as possible before there is a record.

    style: "matrix", or "lines" between two columns of tokens, where the heads of a layer share a panel. vmax: the
    weight with the full colour; by default the largest that is drawn. scale: a scale of the page, for a matrix: "head",
    from 0 to each map's largest; "shared", from 0 to 1; "root", the square root of that; by default from 0 to `vmax`.
    cmap: matplotlib's name of a matrix's colours.

    Raises RequestError for an unknown or impossible value.
    """

    style: str = "matrix"
    vmax: float | None = None
    scale: str | None = None
    cmap: str = COLOURS

    def __post_init__(self) -> None:
        choices.check("style", self.style, choices.Style)
        if self.scale is not None:
            choices.check("scale", self.scale, choices.Scale)
        colour_map(self.cmap)
        if self.vmax is not None and not 0 < self.vmax < math.inf:
            raise RequestError(f"--vmax {self.vmax:g} is not a positive number: weights are between 0 and 1")


# --- titles -------------------------------------------------------------------------------------------

LONGEST_NAME = 40  # characters of a model's name


def describe(record: AttentionRecord, what: What = What()) -> str:
    """Return the title of a record: model, anything unusual, layer, head, mask. Lines break only between these."""
    heads = name_numbers("head", record.heads) if record.pairs is None else str(record.choice)
    name = record.model.full_name  # without the folders that lead to it where it is long
    parts = [
        cut(
            name if len(name) <= LONGEST_NAME else name.rstrip("/\\").replace("\\", "/").rpartition("/")[2],
            LONGEST_NAME,
        ),
        *record.unusual,
        *([name_numbers("layer", record.layers)] if record.pairs is None else []),
        f"mean of {heads}" if what.mean else heads,
        f"mask {record.mask_name}",
        *(["words"] if what.words else [record.part.unit] if record.part and in_stretches(record) else []),
    ]
    return " · ".join(part.replace(" ", NO_BREAK) for part in parts)


def left_out(record: AttentionRecord, what: What) -> str:
    """Name the tokens that are left out of a picture; nothing where all are there."""
    parts = []
    sides = [record.tokens] if record.key_tokens is None else [record.tokens, record.key_tokens]
    flagged = [pair for tokens in sides for pair in zip(tokens.text, tokens.special, strict=True)]
    names = [] if what.special else [token for token, flag in flagged if flag]
    if names:
        parts.append(f"without {', '.join(cut(name, LONGEST_NAME) for name in dict.fromkeys(names))}")
    if what.segments != "all" and any(1 in tokens.segments for tokens in sides):
        first, second = ("the first text" if letter == "A" else "the second text" for letter in what.segments.upper())
        parts.append(f"from {first} to {second}" if first != second else f"within {first}")
    if not parts:
        return ""
    return ", ".join(parts) + ("" if record.measure == "norm" else ": rows no longer sum to 1")


# --- pictures -----------------------------------------------------------------------------------------


def heatmap(
    record: AttentionRecord, what: What = What(), look: Appearance = Appearance(), paper: Paper = Paper()
) -> Figure:
    """Draw the maps of a record: one large, several as a grid; with several layers and heads, layers are the rows.

    The title is that of the paper, by default the model, layer, head and mask; none in print.

    Raises RequestError for a token that is not there, where nothing is left to draw, and for too small a width. A
    Notice names characters that no font on this machine has.
    """
    if what.words:
        record = merge_words(record)
    queries, keys = selected_places(record.tokens, what.special, what.segments, record.keys)
    highlighted = None
    if what.query is not None:
        token = select_token(str(what.query), record.tokens)
        if token not in queries:
            raise RequestError(
                f"query {quoted(str(what.query))}: {quoted(record.tokens.shown[token])} is not drawn as a query: "
                "--segments or --no-special leaves it out"
            )
        highlighted = queries.index(token)
    weights = record.weights
    if what.mean:  # the weights of heads that are not chosen are 0
        counts = np.array([len(record.heads_of(layer)) for layer in record.layers], np.float32)
        weights = weights.sum(axis=1, keepdims=True) / counts[:, None, None, None]
    weights = hide_masked(weights, record.masks[:, None])
    if len(queries) < len(record.tokens) or len(keys) < len(record.keys):
        weights = weights[:, :, queries][..., keys]
    grid = Grid(
        tokens=[record.tokens.shown[place] for place in queries],
        keys=[record.keys.shown[place] for place in keys],
        numbers=(queries if record.rows is None else [record.rows[place] for place in queries], keys),
        title="".join(paper.titled([describe(record, what)])),
        note="; ".join(filter(None, (left_out(record, what), *notes(record)))),
        highlighted=highlighted,
        vmax=look.vmax if look.scale is None else 1.0,
        paper=paper,
    )
    if what.terms:
        parts = {name: np.float32(part[queries][:, keys]) for name, part in score_terms(record).items()}
        signed = [DrawnMap(printable(name), part) for name, part in parts.items()]
        return panel_grid(wrap_panels(signed), grid, cmap=look.cmap, scale=SCORE, signed=True)
    matrices = look.style == "matrix"
    rows = arranged(record, what.mean, wrapped=paper.width is None or not matrices)
    if not matrices:
        return as_lines(record, weights, rows, grid)
    scale = "attention weight" if record.measure == "weight" else record.measure
    maps = [[DrawnMap(caption, weights[layer, head]) for caption, layer, head in row] for row in rows]
    root = None if look.scale is None else look.scale == "root"
    return panel_grid(maps, replace(grid, apart=look.scale == "head"), cmap=look.cmap, scale=scale, root=root)


def as_lines(
    record: AttentionRecord, weights: Floats, rows: Sequence[Sequence[tuple[str, int, int]]], grid: Grid
) -> Figure:
    """Draw the heads of one layer in one panel, each in its colour; several layers as a grid."""
    heads = range(weights.shape[1])
    colours = [INK] if len(heads) < len(record.heads) else [head_colour(place) for place in heads]
    if len(record.layers) > 1:
        strands = [
            [Strands(caption, weights[layer, [head]], [colours[head]]) for caption, layer, head in row] for row in rows
        ]
        return line_grid(strands, grid, measure=record.measure)
    names = [f"{record.layers[0]}.{record.heads[head]}" for head in heads] if len(heads) > 1 else []
    legend = dict(zip(names, colours, strict=False))
    return line_grid([[Strands("", weights[0], colours)]], grid, colours=legend, measure=record.measure)


def arranged(record: AttentionRecord, mean: bool, wrapped: bool) -> list[list[tuple[str, int, int]]]:
    """Arrange the maps in rows of panels: the words above each, and the places of its layer and head in the record.

    Layers are rows and heads columns where there are several of both. With `mean` a panel is a layer's. One panel has
    no name. wrapped: False leaves maps in one row otherwise, because matrices in print are folded to its width later.
    """
    layers, heads = record.layers, record.heads
    if mean:
        maps = [(f"layer {number}", layer, 0) for layer, number in enumerate(layers)]
    else:
        maps = [(f"head {layer}.{head}", layers.index(layer), heads.index(head)) for layer, head in record.each_head]
    if len(maps) == 1:
        return [[("", 0, 0)]]
    if not mean and record.pairs is None and min(len(layers), len(heads)) > 1:
        return [maps[start : start + len(heads)] for start in range(0, len(maps), len(heads))]
    return wrap_panels(maps) if wrapped else [maps]
