"""A record in the terminal: many heads as small maps, one head large, or a glyph a head.

Every function returns lines of rich text, fitted to a canvas. Tokens are printed as they are, made harmless.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.patterns import (
    HeadSummary,
    counted_queries,
    most_attended,
    strongest,
    summarise,
)
from attncli.printable import printable
from attncli.record import AttentionRecord, Floats
from attncli.render.cells import Canvas, colour, ink, number, pool, shade
from attncli.text import Tokens

PANEL_WIDTH = 20  # columns of a small map's caption, at the least
PANEL_LINES = 32  # a small map is at most so many lines high
LABEL_WIDTH = 14  # columns of a token beside a large map
VALUE_WIDTH = 4  # columns of a cell with its number in it
CELL_WIDTHS = (VALUE_WIDTH, 2, 1)

GLYPHS = {"self": "↺", "previous": "←", "next": "→", "first": "⇤", "separator": "■", "broad": "·"}
ASCII_GLYPHS = {"self": "o", "previous": "<", "next": ">", "first": "^", "separator": "s", "broad": "."}
PATTERN_COLOURS = {
    "self": "cyan", "previous": "green", "next": "yellow", "first": "magenta", "separator": "blue", "broad": "white",
}  # fmt: skip
BARS = "▁▂▃▄▅▆▇█"


# --- lines that several views share ---------------------------------------------------------------------


def heading(record: AttentionRecord, what: str, canvas: Canvas) -> Text:
    """Which model, what is unusual, what of it, which mask, how many tokens."""
    return title(
        [shown_name(record.model.name), *record.unusual, what, f"mask {record.mask_name}", size(record)], canvas
    )


def title(parts: Sequence[str], canvas: Canvas) -> Text:
    return Text((" · " if canvas.unicode else " | ").join(parts), style=strong(canvas))


def size(record: AttentionRecord) -> str:
    """How many tokens, [PAD] counted apart."""
    if record.key_tokens is not None:
        return f"{counted(record.tokens)} to {counted(record.key_tokens)}"
    return counted(record.tokens)


def counted(tokens: Tokens) -> str:
    """16 tokens + 2 [PAD]"""
    padding = sum(tokens.padding)
    return f"{len(tokens) - padding} tokens" + (f" + {padding} [PAD]" if padding else "")


def strong(canvas: Canvas) -> str:
    return "bold" if canvas.colour else ""


def faint(canvas: Canvas) -> str:
    return "dim" if canvas.colour else ""


def shown_name(name: str) -> str:
    """A model's name without the folders that lead to it."""
    return printable(name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name)


def legends(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The tokens of the queries, and those of the keys where they are others."""
    if record.key_tokens is None:
        return legend(record.tokens, canvas)
    return [Text("queries", style=faint(canvas)), *legend(record.tokens, canvas), *key_legend(record, canvas)]


def key_legend(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The tokens of the keys, where they are others than those of the queries."""
    if record.key_tokens is None:
        return []
    return [Text("keys", style=faint(canvas)), *legend(record.key_tokens, canvas)]


def legend(tokens: Tokens, canvas: Canvas) -> list[Text]:
    """Tokens with their numbers, as many on a line as fit."""
    lines, line = [], Text()
    for place, token in enumerate(map(printable, tokens.text)):
        if line and line.cell_len + 2 + cell_len(f"{place} {token}") > canvas.width:
            lines.append(line)
            line = Text()
        line.append(f"  {place} " if line else f"{place} ", style=faint(canvas))
        line.append(token)
    return [*lines, line]


def scale(canvas: Canvas) -> Text:
    """What the colours or shades mean."""
    text = Text("weight 0 ")
    for step in range(13):
        weight = (step / 12) ** 2
        if canvas.colour:
            text.append(" ", style=f"on {colour(weight)}")
        else:
            text.append(shade(weight, canvas.unicode))
    return text.append(" 1   (the middle is 0.25)")


def fit(text: str, width: int, canvas: Canvas) -> str:
    """`text` in exactly `width` columns: cut with an ellipsis, or filled up with spaces."""
    if cell_len(text) > width:
        mark = "…" if canvas.unicode else "~"
        while cell_len(text) > width - 1:
            text = text[:-1]
        text += mark
    return text + " " * (width - cell_len(text))


def picture(weights: Floats, canvas: Canvas, columns: int, lines: int) -> list[Text]:
    """A map as a picture: with colour two queries a line, without it one; pooled where it is too large."""
    if canvas.colour and canvas.unicode:
        weights = pool(weights, 2 * lines, columns)
        return [
            Text.assemble(
                *(
                    ("▀", f"{colour(top)} on {colour(bottom)}" if bottom is not None else colour(top))
                    for top, bottom in zip(upper, lower, strict=True)
                )
            )
            for upper, lower in pairs(weights)
        ]
    weights = pool(weights, lines, columns)
    if canvas.colour:
        return [Text.assemble(*((" ", f"on {colour(weight)}") for weight in row)) for row in weights]
    return [Text("".join(shade(weight, canvas.unicode) for weight in row)) for row in weights]


def pairs(weights: Floats) -> Iterable[tuple[list[float], list[float | None]]]:
    """Two queries at a time; the last may be without a fellow."""
    rows = weights.tolist()
    for place in range(0, len(rows), 2):
        upper = rows[place]
        yield upper, rows[place + 1] if place + 1 < len(rows) else [None] * len(upper)


# --- small maps -----------------------------------------------------------------------------------------


def overview(record: AttentionRecord, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """Each head of the record as a small map, several beside each other, with what it looks at most."""
    queries, keys = len(record.tokens), len(record.keys)
    summaries = summarise(record)
    columns, width = panel_size(record, canvas)
    lines: list[Text] = []
    for layer in record.layers:
        lines += [heading(record, f"layer {layer}", canvas), *legends(record, canvas), scale(canvas)]
        if columns < keys or picture_rows(canvas) < queries:
            lines.append(Text("a cell is the largest of the weights that fall into it"))
        lines.append(Text())
        panels = [
            panel(record, layer, head, summaries[layer, head], canvas, columns, width, top_k) for head in record.heads
        ]
        lines += in_rows(panels, width, canvas)
    return lines[:-1]


def panel_size(record: AttentionRecord, canvas: Canvas) -> tuple[int, int]:
    """Columns of a small map, and of its panel, whose caption may be wider."""
    columns = min(len(record.keys), canvas.width)
    return columns, min(max(columns, PANEL_WIDTH), canvas.width)


def in_rows(panels: Sequence[list[Text]], width: int, canvas: Canvas) -> list[Text]:
    """Panels side by side as far as the canvas reaches, an empty line after every row of them."""
    across = max(1, (canvas.width + 2) // (width + 2))
    rows = [panels[start : start + across] for start in range(0, len(panels), across)]
    return [line for row in rows for line in (*beside(row, width), Text())]


def picture_rows(canvas: Canvas) -> int:
    """How many queries a small map shows one by one."""
    return PANEL_LINES * (2 if canvas.colour and canvas.unicode else 1)


def panel(
    record: AttentionRecord,
    layer: int,
    head: int,
    summary: HeadSummary,
    canvas: Canvas,
    columns: int,
    width: int,
    top_k: int,
) -> list[Text]:
    """One small map: its number and pattern, the picture, and the keys that get most weight."""
    share = max(summary.shares.values())
    kind = summary.label if summary.label == "broad" else f"{summary.label} {number(share)}"
    return [
        Text(fit(f"head {head}  {kind}", width, canvas), style=strong(canvas)),
        *picture(record.map(layer, head), canvas, columns, PANEL_LINES),
        Text(most_keys(record, layer, head, width, top_k, canvas), style=faint(canvas)),
    ]


def most_keys(record: AttentionRecord, layer: int, head: int, width: int, top_k: int, canvas: Canvas) -> str:
    """The keys that get most of a head's weight, as many as there is room for."""
    shown = ""
    for key, weight in most_attended(record, layer, head, top_k):
        entry = f"{printable(record.keys.text[key])} {number(weight)}"
        if shown and cell_len(shown) + 2 + cell_len(entry) > width:
            break
        shown += f"  {entry}" if shown else entry
    return fit(shown, width, canvas)


def beside(panels: Sequence[list[Text]], width: int) -> list[Text]:
    """Panels of equal height side by side, two columns apart."""
    lines = []
    for row in zip(*panels, strict=True):
        line = Text()
        for place, part in enumerate(row):
            line.append_text(part)
            if place < len(row) - 1:
                line.append(" " * (width + 2 - part.cell_len))
        line.rstrip()
        lines.append(line)
    return lines


# --- one head, large ------------------------------------------------------------------------------------


def one_head(record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """One head large: a row a query with its token, its weights, and its strongest keys.

    Cells carry their numbers where the width allows, else only their colour or shade; a text too long even
    for that gets a picture. The strongest keys stand beside the map where there is room, else below it.
    """
    weights = record.map(layer, head)
    queries, length = len(record.tokens), len(record.keys)
    labels = query_labels(record, canvas)
    keys = [strongest_keys(record, row, top_k) for row in weights]
    left = cell_len(labels[0])
    cell = next((size for size in CELL_WIDTHS if left + 1 + length * size <= canvas.width), 0)
    beside_map = left + 1 + length * cell + 2 + max(cell_len(found) for found in keys) <= canvas.width
    lines = [
        heading(record, f"layer {layer} head {head}", canvas),
        about(record, layer, head, canvas),
        *key_legend(record, canvas),
        scale(canvas),
        Text(),
    ]
    if cell == 0:
        lines += picture(weights, canvas, min(length, canvas.width), PANEL_LINES)
    elif cell == VALUE_WIDTH:
        numbers = "".join(f"{key:>{cell}}" for key in range(length))
        lines.append(Text(" " * (left + 1) + numbers, style=faint(canvas)))
    for query in range(queries) if cell else ():
        line = Text(labels[query] + " ")
        for weight in weights[query].tolist():
            line.append(*cell_text(weight, cell, canvas))
        line.append(f"  {keys[query]}" if beside_map else "")
        lines.append(line)
    if not beside_map:
        lines.append(Text())
        lines += [Text(f"{label}  {found}") for label, found in zip(labels, keys, strict=True)]
    return lines


def query_labels(record: AttentionRecord, canvas: Canvas) -> list[str]:
    """The tokens with their numbers, all of one width."""
    tokens = [printable(token) for token in record.tokens.text]
    width = min(LABEL_WIDTH, max(cell_len(token) for token in tokens))
    return [f"{number:>3} {fit(token, width, canvas)}" for number, token in enumerate(tokens)]


def about(record: AttentionRecord, layer: int, head: int, canvas: Canvas) -> Text:
    """The head in one line: its pattern, where its weight goes, its entropy."""
    summary = summarise(record.select([layer], [head]))[layer, head]
    shares = "  ".join(f"{name} {share:.2f}" for name, share in summary.shares.items())
    most = math.log(max(possible_keys(record), 1))
    return Text(f"{summary.label}: {shares}; entropy {summary.entropy:.2f} of at most {most:.2f} nats")


def possible_keys(record: AttentionRecord) -> int:
    """To how many keys a query may attend at most, [PAD] not counted."""
    return int(record.mask[counted_queries(record)][:, ~np.array(record.keys.padding)].sum(axis=1).max(initial=0))


def cell_text(weight: float, width: int, canvas: Canvas) -> tuple[str, str]:
    """What stands in a cell, and its style."""
    content = f"{number(weight):>{width}}" if width == VALUE_WIDTH else " " * width
    if canvas.colour:
        return content, f"{ink(weight)} on {colour(weight)}"
    if width == VALUE_WIDTH:
        return content if content.strip() else f"{'·' if canvas.unicode else '.':>{width}}", ""
    return shade(weight, canvas.unicode) * width, ""


def strongest_keys(record: AttentionRecord, row: Floats, top_k: int) -> str:
    """A query's strongest keys with their weights."""
    found = strongest(row, top_k)
    if not found:
        return "(may attend to nothing)"
    return "  ".join(f"{printable(record.keys.text[key])} {weight:.3f}" for key, weight in found)


# --- a glyph a head -------------------------------------------------------------------------------------


def glyph_table(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """One line a layer: for each head the pattern that takes most weight, and a bar for its entropy."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    summaries = summarise(record)
    most = math.log(max(possible_keys(record), 2))
    lines = [heading(record, f"{len(record.layers)} layers x {len(record.heads)} heads", canvas)]
    lines.append(Text("head      " + "".join(f"{head:>4}" for head in record.heads)))
    for layer in record.layers:
        line = Text(f"layer {layer:<3} ")
        for head in record.heads:
            summary = summaries[layer, head]
            line.append("  ")
            line.append(glyphs[summary.label], PATTERN_COLOURS[summary.label] if canvas.colour else "")
            line.append(bar(summary.entropy / most, canvas))
        lines.append(line)
    meaning = "  ".join(f"{glyph} {label}" for label, glyph in glyphs.items())
    ends = f"{bar(0, canvas)} looks at one token, {bar(1, canvas)} at all alike"
    return [*lines, Text(), Text(meaning), Text(f"beside it the entropy: {ends}")]


def bar(share: float, canvas: Canvas) -> str:
    """0 to 1 as the height of a bar, or as a digit."""
    steps = BARS if canvas.unicode else "0123456789"
    return steps[min(int(max(share, 0.0) * len(steps)), len(steps) - 1)]
