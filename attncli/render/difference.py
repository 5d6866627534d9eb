"""Two records beside each other in the terminal: a number for each head, and the cells that differ most."""

from collections.abc import Sequence
from textwrap import shorten

from rich.table import Table
from rich.text import Text

from attncli.analysis.difference import Difference
from attncli.printable import printable
from attncli.record import AttentionRecord
from attncli.render.cells import Canvas, colour, ink
from attncli.render.tables import plain_table
from attncli.render.terminal import shown_name, size, strong, title
from attncli.text import Tokens

MEANING = "moved: how much weight must move to make one map the other (total variation), mean over tokens; 0 to 1"
CELL = 5  # columns of a head
NAMED = 5  # the heads that differ most
BEGINNING = 70  # characters of a text


def difference_view(found: Difference, top: int, canvas: Canvas) -> list[Text | Table]:
    """What is compared, how much weight moved in every head, and the `top` cells that differ most."""
    lines: list[Text | Table] = [*sides(found, canvas), Text(MEANING), Text(), *heads_grid(found, canvas), Text()]
    cells = cells_table(found, top)
    if cells.row_count == 0:
        return [*lines, Text("the maps are the same")]
    most = [f"{layer}.{head} {found.of(layer, head):.3f}" for layer, head in found.heads()[:NAMED]]
    return [*lines, Text(f"heads that differ most: {'  '.join(most)}"), cells]


def sides(found: Difference, canvas: Canvas) -> list[Text]:
    """The two, a line each; what is the same in both is said all the same."""
    return [
        title([f"{name}  {shown_name(one.model.name)}", *about(one)], canvas)
        for name, one in (("A", found.first), ("B", found.second))
    ]


def about(record: AttentionRecord) -> list[str]:
    """What is unusual of it, the mask, how many tokens, and how the text begins."""
    text = [token for token, special in zip(record.tokens.text, record.tokens.special, strict=True) if not special]
    return [
        *record.unusual,
        f"mask {record.mask_name}",
        size(record),
        printable(shorten(" ".join(text), BEGINNING, placeholder=" ...")),
    ]


def heads_grid(found: Difference, canvas: Canvas) -> list[Text]:
    """A row a layer, a number a head: how much weight moved."""
    layers, heads = found.first.layers, found.first.heads
    lines = [Text("head      " + "".join(f"{head:>{CELL}}" for head in heads), style=strong(canvas))]
    for layer, row in zip(layers, found.moved.tolist(), strict=True):
        line = Text(f"layer {layer:<4}")
        for moved in row:
            line.append(f"{moved:>{CELL}.2f}", f"{ink(moved)} on {colour(moved)}" if canvas.colour else "")
        lines.append(line)
    return lines


def cells_table(found: Difference, top: int) -> Table:
    """A row a cell, those that differ most first."""
    table = plain_table("head", "query", "key", "A", "B", "B - A")
    table.columns[1].justify = table.columns[2].justify = "left"
    queries, keys = token_pairs(found)
    for cell in found.largest(top):
        table.add_row(
            f"{cell.layer}.{cell.head}",
            Text(f"{cell.query} {queries[cell.query]}"),
            Text(f"{cell.key} {keys[cell.key]}"),
            f"{cell.first:.3f}",
            f"{cell.second:.3f}",
            f"{cell.change:+.3f}",
        )
    return table


def token_pairs(found: Difference) -> tuple[list[str], list[str]]:
    """The queries and the keys: "cat", or "cat / dog" where the two have different tokens in one place."""
    return paired(found.first.tokens, found.second.tokens), paired(found.first.keys, found.second.keys)


def paired(first: Tokens, second: Tokens) -> list[str]:
    both: Sequence[tuple[str, str]] = list(zip(map(printable, first.text), map(printable, second.text), strict=True))
    return [one if one == other else f"{one} / {other}" for one, other in both]
