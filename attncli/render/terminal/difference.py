"""Two records beside each other in the terminal: a number for each head, and the cells that differ most."""

from collections.abc import Callable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.difference import Difference
from attncli.render.captions.difference import MEANING, about, token_pairs
from attncli.report.canvas import Canvas
from attncli.report.captions import model_name
from attncli.report.terminal import HEAD_WIDTH, Prose, ground, head_grid, plain_table, title

NAMED = 5  # the heads that differ most


def difference_view(found: Difference, top: int, canvas: Canvas) -> list[RenderableType]:
    """What is compared, how much weight moved in every head, and the `top` cells that differ most."""
    lines: list[RenderableType] = [*sides(found, canvas), Prose(MEANING), Text(), *heads_grid(found, canvas), Text()]
    cells = cells_table(found, top)
    if cells.row_count == 0:
        return [*lines, Text("the maps are the same")]
    most = [f"{layer}.{head} {found.of(layer, head):.3f}" for layer, head in found.heads()[:NAMED]]
    return [*lines, Prose(f"heads that differ most: {'  '.join(most)}"), cells]


def sides(found: Difference, canvas: Canvas) -> list[Text]:
    """The two, a line each; what is the same in both is said all the same."""
    return [
        title([f"{name}  {model_name(one.model.shown)}", *about(one)], canvas)
        for name, one in (("A", found.first), ("B", found.second))
    ]


def heads_grid(found: Difference, canvas: Canvas) -> list[Text]:
    """A row a layer, a number a head: how much weight moved."""
    return head_grid(found.first.layers, found.first.heads, moved_cell(found, canvas), canvas)


def moved_cell(found: Difference, canvas: Canvas) -> Callable[[int, int], Text]:
    """How much weight moved in a head, by the places of its layer and itself."""
    moved = found.moved.tolist()

    def cell(row: int, place: int) -> Text:
        return Text(f"{moved[row][place]:>{HEAD_WIDTH}.2f}", style=ground(moved[row][place], canvas))

    return cell


def cells_table(found: Difference, top: int) -> Table:
    """A row a cell, those that differ most first."""
    table = plain_table("head", "query", "key", "A", "B", "B - A", names=["query", "key"], goes=["A", "B"])
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
