"""Attention records as pictures: PNG, SVG and PDF, drawn with matplotlib and without a display.

`heatmap` says what a picture shows: which maps, of which tokens, under which words. `attncli.render.matrix` and
`attncli.render.lines` draw it.
"""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from attncli.analysis.filters import kept
from attncli.analysis.words import merge_words
from attncli.errors import RequestError
from attncli.files import PICTURES, check_suffix, write_whole
from attncli.record import AttentionRecord, number_list
from attncli.render import fonts
from attncli.render.drawing import INK, check_vmax, cut, drawing
from attncli.render.layout import NO_BREAK, Panel, wrap_panels
from attncli.render.lines import Strands, line_grid
from attncli.render.matrix import COLOURS, colour_map, panel_grid
from attncli.render.palette import head_colour
from attncli.render.paper import Paper, paper
from attncli.selection import select_token
from attncli.text import Tokens

# Of these, panel_grid and Panel are for pictures that are not of one record.
__all__ = ["COLOURS", "DPI", "Panel", "check", "heatmap", "left_out", "panel_grid", "save_figure"]

STYLES = ("matrix", "lines")
DPI = 150
MOST_PIXELS = 200_000_000
NO_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
LONGEST_NAME = 40  # characters of a model's name


def heatmap(
    record: AttentionRecord,
    *,
    style: str = "matrix",
    mean: bool = False,
    special: bool = True,
    words: bool = False,
    segments: str = "all",
    query: str | int | None = None,
    vmax: float | None = None,
    cmap: str = COLOURS,
    title: str | None = None,
    width: str | float | None = None,
    font: str | None = None,
    font_size: float | None = None,
) -> Figure:
    """The maps of a record: one large, several as a grid; of several layers and heads, layers are the rows.

    style: "matrix", or "lines" between two columns of tokens; there the heads of one layer share a panel.
    mean: one map a layer, the mean over the record's heads.
    special: False leaves out [CLS], [SEP] and [PAD]; words: pieces are put together to words.
    segments: "AB" is queries of the first text and keys of the second, and so on; "all".
    query: the token whose row or lines stand out: "it", "it#2" (the second one) or its number, among the tokens of
    the text; among its words, where they are put together.
    vmax: the weight that gets the last, or the full, colour; by default the largest that is drawn.
    cmap: matplotlib's name of a matrix's colours.
    title: instead of the model, layer, head and mask.
    width: "8cm", "80mm", "3.15in", "227pt" or inches; by default what the maps need.
    font, font_size: an installed family, and points of the tokens.

    Raises RequestError when an argument is none of these, asks for a token that is not there, or leaves nothing to
    draw. A Notice names characters that no font on this machine has.
    """
    sheet = check(style, cmap, vmax, width, font, font_size)
    if words:
        record = merge_words(record)
    queries, keys = kept(record.tokens, special, segments, record.keys)
    held = None if query is None else held_place(query, record.tokens, queries)
    weights = record.weights.mean(axis=1, keepdims=True) if mean else record.weights
    if len(queries) < len(record.tokens) or len(keys) < len(record.keys):
        weights = weights[:, :, queries][..., keys]
    texts = [record.tokens.text[place] for place in queries], [record.keys.text[place] for place in keys]
    table = len(record.layers) > 1 and weights.shape[1] > 1
    around: dict[str, Any] = {
        "headings": [f"layer {number}" for number in record.layers] if table else [],
        "title": describe(record, mean, words) if title is None else title,
        "note": left_out(record, special, segments),
        "held": held,
        "vmax": vmax,
        "paper": sheet,
    }
    rows = arranged(record.layers, [] if mean else record.heads)
    if style == "matrix":
        maps = [[Panel(caption, weights[layer, head]) for caption, layer, head in row] for row in rows]
        scale = "attention weight" if record.measure == "weight" else record.measure
        return panel_grid(maps, *texts, cmap=cmap, scale=scale, **around)
    around["measure"] = record.measure
    colours = [INK] if mean else [head_colour(number) for number in record.heads]
    if len(record.layers) > 1:
        strands = [
            [Strands(caption, weights[layer, [head]], [colours[head]]) for caption, layer, head in row] for row in rows
        ]
        return line_grid(strands, *texts, **around)
    names = [f"{record.layers[0]}.{number}" for number in record.heads] if len(colours) > 1 else []
    legend = list(zip(names, colours, strict=False))
    return line_grid([[Strands("", weights[0], colours)]], *texts, legend=legend, **around)


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


def check(
    style: str = "matrix",
    cmap: str = COLOURS,
    vmax: float | None = None,
    width: str | float | None = None,
    font: str | None = None,
    font_size: float | None = None,
) -> Paper:
    """What can be known of `heatmap`'s arguments before there is a record; the paper that it is drawn on.

    Raises RequestError as `heatmap` does.
    """
    if style not in STYLES:
        raise RequestError(f"no style {style!r}: it is {' or '.join(STYLES)}")
    colour_map(cmap)
    check_vmax(vmax)
    return paper(width, font, font_size)


def held_place(query: str | int, tokens: Tokens, queries: Sequence[int]) -> int:
    """The place, among the queries that are drawn, of the one named. Raises RequestError when it is not there."""
    token = select_token(str(query), tokens.text)
    if token not in queries:
        raise RequestError(
            f"query {query}: {tokens.text[token]!r} is no query that is drawn: --segments or --no-special leaves it out"
        )
    return queries.index(token)


def save_figure(figure: Figure, path: str | Path, dpi: int = DPI) -> None:
    """Save by suffix: .png, .svg or .pdf. Whole or not at all; the same picture gives the same bytes.

    dpi: dots an inch, of a PNG and of the maps in the others.

    Raises RequestError for another suffix, an unwritable place, or more dots than fit into memory.
    """
    path = Path(path)
    suffix = check_suffix(path, PICTURES, "a picture")
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


# --- words ----------------------------------------------------------------------------------------------


def describe(record: AttentionRecord, mean: bool, words: bool) -> str:
    """Model, what is unusual of it, layer, head, mask; a line may break between them only."""
    heads = numbered("head", record.heads)
    parts = [
        short_name(record.model.name),
        *record.unusual,
        numbered("layer", record.layers),
        f"mean of {heads}" if mean else heads,
        f"mask {record.mask_name}",
        *(["words"] if words else []),
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


def left_out(record: AttentionRecord, special: bool, segments: str) -> str:
    """What a picture of some of the tokens says; nothing where all are there."""
    parts = []
    sides = [record.tokens] if record.key_tokens is None else [record.tokens, record.key_tokens]
    flagged = [pair for tokens in sides for pair in zip(tokens.text, tokens.special, strict=True)]
    names = [] if special else [token for token, flag in flagged if flag]
    if names:
        parts.append(f"without {', '.join(dict.fromkeys(names))}")
    if segments != "all" and any(1 in tokens.segments for tokens in sides):
        first, second = ("the first text" if letter == "A" else "the second text" for letter in segments.upper())
        parts.append(f"from {first} to {second}" if first != second else f"within {first}")
    if not parts:
        return ""
    return ", ".join(parts) + ("" if record.measure == "norm" else ": rows no longer sum to 1")
