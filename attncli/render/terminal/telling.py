"""The first look at a text: what every head does with it, which heads are worth a closer look, and why these."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.sinks import first_is_sink
from attncli.analysis.telling import STRONG, Edge, Usual, clear_patterns
from attncli.record import AttentionRecord
from attncli.record.selection import numbered_names
from attncli.render.terminal.glyphs import glyph_table
from attncli.report.canvas import Canvas
from attncli.report.terminal import fold

SOME, MOST = 4, 8  # heads that are named: for so many layers stand beside each other; at the most
NAMED = 4  # edges of a head, or patterns


def first_look(
    record: AttentionRecord, found: Sequence[Sequence[Edge]], over: Usual, canvas: Canvas, commands: Sequence[str]
) -> list[Text]:
    """The heads as glyphs, then those with edges far above what is usual, in the lines that the canvas has.

    found: as `attncli.analysis.telling.edges` has them, by what is usual `over` some texts; commands: what to type
    next, of which a terminal shows as many as there is room for, and the first in any case.
    """
    clear = patterns(record, canvas)
    rest = [*(clear if canvas.height is None else clear[:1]), *meaning(record, over, canvas)]
    if canvas.height is None:
        heads = found[:MOST]
        grid, shown = glyph_table(record, canvas), []
    else:
        # Beside these: an empty line, and the prompt.
        room = canvas.height - len(rest) - len(count(record, found, MOST, canvas)) - 2
        room -= sum(lines_of(command, canvas) for command in commands[:1])
        grid = glyph_table(record, canvas, room - min(SOME, len(found)))
        room -= len(grid)
        heads = found[: min(max(room, 1), MOST)]
        room -= len(heads)
        shown = [*commands[:1], *fitting(commands[1:], room, canvas)]
    return [
        *grid, Text(), *count(record, found, len(heads), canvas), *named(record, heads, canvas), *rest,
        *(Text(one, no_wrap=True, overflow="ignore") for one in shown),  # the terminal folds them, so that they paste
    ]  # fmt: skip


def fitting(texts: Sequence[str], room: int, canvas: Canvas) -> Iterator[str]:
    """Texts from the first on, as many as there is room for."""
    for text in texts:
        room -= lines_of(text, canvas)
        if room >= 0:
            yield text


def lines_of(text: str, canvas: Canvas) -> int:
    """How many lines of the terminal a text takes."""
    return -(-cell_len(text) // canvas.width)


def count(record: AttentionRecord, found: Sequence[Sequence[Edge]], shown: int, canvas: Canvas) -> list[Text]:
    """How many heads have such edges, and of how many they are `shown`."""
    every = len(record.layers) * len(record.heads)
    have = "have" if len(found) > 1 else "has"
    those = f"; {shown} of them" if 0 < shown < len(found) else ""
    said = f"{len(found) or 'none'} of {every} heads {have} edges between words far above what is usual{those}"
    return folded(f"{said}:" if found else said, canvas, canvas.strong)


def named(record: AttentionRecord, heads: Sequence[Sequence[Edge]], canvas: Canvas) -> list[Text]:
    """A line a head: its edges with their weights, as many as fit; behind the first what is usual there."""
    queries, keys = numbered_names(record.tokens), numbered_names(record.keys)
    arrow = "→" if canvas.unicode else "->"
    lines = []
    for of_head in heads:
        line = f"{f'{of_head[0].layer}.{of_head[0].head}':>5}"
        for edge in of_head[:NAMED]:
            shown = f"  {queries[edge.query]} {arrow} {keys[edge.key]} {edge.weight:.2f} ({edge.usual:.2f})"
            if edge is not of_head[0] and cell_len(line + shown) > canvas.width:
                break
            line += shown
        lines.append(Text(line))
    return lines


def patterns(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The heads that look at the token itself, before or after; nothing where there is none."""
    clear = clear_patterns(record)[:NAMED]
    said = [f"{layer}.{head} {pattern} {share:.2f}" for layer, head, pattern, share in clear]
    return folded(f"clear patterns:  {'  '.join(said)}", canvas) if clear else []


def meaning(record: AttentionRecord, over: Usual, canvas: Canvas) -> list[Text]:
    """How these were chosen, and which word was not among them."""
    others = over.texts - 1
    where = f"in this and {others} texts of attncli's own" if others else "in this text"
    said = (
        f"(in brackets what is usual: the head's mean at that distance {where}, or what other words give that key if "
        f"more; far above: by {STRONG})"
    )
    return [*folded(said, canvas, canvas.faint), *sink_note(record, canvas)]


def sink_note(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """Say that the first token is a sink, where it is one without being special; else nothing."""
    if not first_is_sink(record):
        return []
    name = numbered_names(record.tokens)[0]
    said = (
        f'(the first token, "{name}", is a sink: every token after it sees it; as [CLS] would be, it is no word here)'
    )
    return folded(said, canvas, canvas.faint)


def folded(text: str, canvas: Canvas, style: str = "") -> list[Text]:
    return [Text(line, style) for line in fold(text, canvas.width)]
