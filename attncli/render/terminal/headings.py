"""What stands above maps in the terminal: the title, the tokens with their numbers, what the colours mean."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.captions.records import model_name, record_size
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.shades import colour, shade
from attncli.text.tokens import Tokens

SCALE_WIDTH = 47  # columns of a scale with all its words


def title(parts: Sequence[str], canvas: Canvas) -> Text:
    return Text((" · " if canvas.unicode else " | ").join(parts), style=canvas.strong)


def heading(record: AttentionRecord, what: str, canvas: Canvas) -> Text:
    """Which model, what is unusual, what of it, which mask, how many tokens."""
    mask = f"mask {record.mask_name}"
    return title([model_name(record.model.name), *record.unusual, what, mask, record_size(record)], canvas)


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
    for place, token in enumerate(map(printable, tokens.text)):
        token = canvas.within(token, canvas.width - len(f"{place} "))
        if line and line.cell_len + 2 + cell_len(f"{place} {token}") > canvas.width:
            lines.append(line)
            line = Text()
        line.append(f"  {place} " if line else f"{place} ", style=canvas.faint)
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
    middle = "   (the middle is 0.25)" if canvas.width >= SCALE_WIDTH else ""
    return text.append(f" 1{middle}")
