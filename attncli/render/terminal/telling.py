"""The first look at a text: what every head does with it, which heads are worth a closer look, and why these."""

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.telling import STRONG, Edge, Usual, clear_patterns
from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.glyphs import glyph_table

LEAST, MOST = 2, 8  # heads that are named where there is room for all that one wants
NAMED = 4  # edges of a head, or patterns


def first_look(
    record: AttentionRecord, found: Sequence[Sequence[Edge]], over: Usual, canvas: Canvas, commands: Sequence[str]
) -> list[Text]:
    """The heads as glyphs, then those with edges far above what is usual, in the lines that the canvas has.

    found: as `attncli.analysis.telling.edges` has them, by what is usual `over` some texts; commands: what to type
    next, of which a terminal shows as many as there is room for, and one at the least.
    """
    grid = glyph_table(record, canvas)
    rest = [*patterns(record, canvas), *meaning(over, canvas)]
    if canvas.height is None:
        heads, shown = found[:MOST], []
    else:
        room = canvas.height - len(grid) - len(rest) - 3  # an empty line, a title, and the prompt
        heads = found[: max(LEAST, min(MOST, room - lines_of(commands[0], canvas)))]
        shown = commands[:1]
        room -= len(heads) + lines_of(commands[0], canvas)
        for command in commands[1:]:
            room -= lines_of(command, canvas)
            shown = [*shown, command] if room >= 0 else shown
    return [
        *grid, Text(), count(record, found, heads, canvas), *named(record, heads, canvas), *rest,
        *(Text(one) for one in shown),
    ]  # fmt: skip


def lines_of(text: str, canvas: Canvas) -> int:
    """How many lines of the terminal a text takes."""
    return -(-cell_len(text) // canvas.width)


def count(record: AttentionRecord, found: Sequence[Sequence[Edge]], shown: Sequence[object], canvas: Canvas) -> Text:
    """How many heads have such edges."""
    every = len(record.layers) * len(record.heads)
    if not found:
        return Text(f"no head of {every} has an edge between words far above what is usual for it", canvas.strong)
    have = "has an edge" if len(found) == 1 else "have edges"
    those = "" if len(shown) == len(found) else f"; the first {len(shown)}"
    return Text(f"{len(found)} of {every} heads {have} between words far above what is usual{those}:", canvas.strong)


def named(record: AttentionRecord, heads: Sequence[Sequence[Edge]], canvas: Canvas) -> list[Text]:
    """A line a head: its edges with their weights, as many as fit; behind the first what is usual there."""
    lines = []
    for of_head in heads:
        line = f"{f'{of_head[0].layer}.{of_head[0].head}':>5}"
        for edge in of_head[:NAMED]:
            shown = f"  {edge_text(record, edge, canvas)} ({edge.usual:.2f})"
            if edge is not of_head[0] and cell_len(line + shown) > canvas.width:
                break
            line += shown
        lines.append(Text(line))
    return lines


def edge_text(record: AttentionRecord, edge: Edge, canvas: Canvas) -> str:
    """it → trophy 0.61"""
    arrow = "→" if canvas.unicode else "->"
    query, key = printable(record.tokens.text[edge.query]), printable(record.keys.text[edge.key])
    return f"{query} {arrow} {key} {edge.weight:.2f}"


def patterns(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The heads that look at the token itself, before or after, in one line; none where there is none."""
    clear = clear_patterns(record)[:NAMED]
    said = "  ".join(f"{layer}.{head} {pattern} {share:.2f}" for layer, head, pattern, share in clear)
    return folded(f"clear patterns: {said}", canvas) if clear else []


def meaning(over: Usual, canvas: Canvas) -> list[Text]:
    """How these were chosen."""
    others = over.texts - 1
    where = f"in this and {others} texts that come with attncli" if others else "in this text"
    said = (
        f"(in brackets what is usual: the larger of what the head gives at that distance on average, {where}, and what "
        f"the other words give that key; far above: by {STRONG} or more)"
    )
    return folded(said, canvas)


def folded(text: str, canvas: Canvas) -> list[Text]:
    return [Text(line, canvas.faint) for line in textwrap.wrap(text, canvas.width)]
