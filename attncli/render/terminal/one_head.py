"""One head large: a row a query with its token, its weights, and its strongest keys."""

import math

from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.patterns import strongest, summarise
from attncli.base.arrays import Floats
from attncli.base.printable import visible
from attncli.record import AttentionRecord
from attncli.render.terminal.canvas import Canvas, to_width
from attncli.render.terminal.glyphs import possible_keys
from attncli.render.terminal.headings import heading, key_legend, scale, unknown_note
from attncli.render.terminal.panels import LINES, picture
from attncli.render.terminal.shades import VALUE_WIDTH, cell_text

LABEL_WIDTH = 14  # columns of a token
CELL_WIDTHS = (VALUE_WIDTH, 2, 1)  # the widest that fits is taken


def one_head(record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """One head of a record.

    Cells carry their numbers where the width allows, else only their colour or shade; a text too long even
    for that gets a picture. The strongest keys stand beside the map where there is room, else below it.
    """
    weights = record.map(layer, head)
    length = len(record.keys)
    labels = query_labels(record, canvas)
    keys = [strongest_keys(record, row, top_k) for row in weights]
    left = cell_len(labels[0]) + 1
    cell = next((width for width in CELL_WIDTHS if left + length * width <= canvas.width), 0)
    beside_map = left + length * cell + 2 + max(cell_len(found) for found in keys) <= canvas.width
    lines = [
        heading(record, f"layer {layer} head {head}", canvas),
        about(record, layer, head),
        *(key_legend(record, canvas) or unknown_note(record.tokens, canvas)),
        scale(canvas),
        Text(),
    ]
    if cell == 0:
        lines += picture(weights, canvas, min(length, canvas.width), LINES)
    elif cell == VALUE_WIDTH:
        numbers = "".join(f"{key:>{cell}}" for key in range(length))
        lines.append(Text(" " * left + numbers, style=canvas.faint))
    for label, row, found in zip(labels, weights.tolist(), keys, strict=True) if cell else ():
        line = Text(label + " ")
        for weight in row:
            line.append(*cell_text(weight, cell, canvas))
        lines.append(line.append(f"  {found}" if beside_map else ""))
    if not beside_map:
        lines.append(Text())
        lines += [Text(f"{label}  {found}") for label, found in zip(labels, keys, strict=True)]
    return lines


def query_labels(record: AttentionRecord, canvas: Canvas) -> list[str]:
    """The tokens with their numbers, all of one width."""
    tokens = [visible(token) for token in record.tokens.shown]
    width = min(LABEL_WIDTH, max(cell_len(token) for token in tokens))
    return [f"{place:>3} {to_width(token, width, canvas)}" for place, token in enumerate(tokens)]


def about(record: AttentionRecord, layer: int, head: int) -> Text:
    """The head in one line: its pattern, where its weight goes, its entropy."""
    summary = summarise(record.select([layer], [head]))[layer, head]
    shares = "  ".join(f"{name} {share:.2f}" for name, share in summary.shares.items())
    most = math.log(max(possible_keys(record, layer), 1))
    return Text(f"{summary.label}: {shares}; entropy {summary.entropy:.2f} of at most {most:.2f} nats")


def strongest_keys(record: AttentionRecord, row: Floats, top_k: int) -> str:
    """A query's strongest keys with their weights."""
    found = strongest(row, top_k)
    if not found:
        return "(may attend to nothing)"
    return "  ".join(f"{visible(record.keys.shown[key])} {weight:.3f}" for key, weight in found)
