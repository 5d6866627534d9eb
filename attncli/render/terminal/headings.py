"""What stands above maps in the terminal: the title, the tokens with their numbers, what the colours mean."""

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from attncli.base.arrays import Floats
from attncli.base.printable import visible
from attncli.record import AttentionRecord
from attncli.render.captions.records import model_name, record_size
from attncli.render.hidden import HIDDEN, hides
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.shades import cell_text, colour, shade
from attncli.text.shown import characters, unknown_name
from attncli.text.tokens import Tokens


def title(parts: Sequence[str], canvas: Canvas) -> Text:
    return Text((" · " if canvas.unicode else " | ").join(parts), style=canvas.strong)


def heading(record: AttentionRecord, what: str, canvas: Canvas) -> Text:
    """Which model, what is unusual, what of it, which mask, how many tokens."""
    mask = f"mask {record.mask_name}"
    return title([model_name(record.model.shown), *record.unusual, what, mask, record_size(record)], canvas)


def legends(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The tokens of the queries, and those of the keys where they are others."""
    if record.key_tokens is None:
        return legend(record.tokens, canvas)
    return [Text("queries", style=canvas.faint), *legend(record.tokens, canvas), *key_legend(record, canvas)]


def key_legend(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """The tokens of the keys, where they are others than those of the queries."""
    if record.key_tokens is None:
        return []
    return [Text("keys", style=canvas.faint), *legend(record.key_tokens, canvas)]


def legend(tokens: Tokens, canvas: Canvas) -> list[Text]:
    """Tokens with their numbers, as many on a line as fit."""
    lines, line = [], Text()
    for place, token in enumerate(map(visible, tokens.shown)):
        token = canvas.within(token, canvas.width - len(f"{place} "))
        if line and line.cell_len + 2 + cell_len(f"{place} {token}") > canvas.width:
            lines.append(line)
            line = Text()
        line.append(f"  {place} " if line else f"{place} ", style=canvas.faint)
        line.append(token)
    return [*lines, line, *unknown_note(tokens, canvas)]


def unknown_note(tokens: Tokens, canvas: Canvas) -> list[Text]:
    """What the mark of an unknown token means, where there is one."""
    token = next((token for token in tokens.shown if unknown_name(token)), None)
    if token is None:
        return []
    said = f"{token}: {characters(token)} is not in the vocabulary, the model reads {unknown_name(token)}"
    return [Text(visible(said), style=canvas.faint)]


def scale(canvas: Canvas, *maps: Floats) -> Text:
    """What the colours or shades mean, and what rows and columns are, in one line as far as it fits.

    maps: those below it, as they are drawn: where something is hidden there, it says how that looks.
    """
    text = Text("weight 0 ")
    for step in range(13):
        weight = (step / 12) ** 2
        if canvas.colour:
            text.append(" ", style=f"on {colour(weight)}")
        else:
            text.append(shade(weight, canvas.unicode))
    text.append(" 1")
    if hides(*maps):
        text.append("  ").append(*cell_text(math.nan, 2, canvas)).append(f" {HIDDEN}")
    for more in ("  rows: queries, columns: keys", "  (the middle is 0.25)"):
        if text.cell_len + len(more) <= canvas.width:
            text.append(more)
    return text
