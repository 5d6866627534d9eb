"""What tables and grids of heads in the terminal have in common."""

from collections.abc import Callable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from attncli.render.terminal.canvas import Canvas

HEAD_WIDTH = 5  # columns of a head in a grid with a row a layer


def plain_table(first: str, *others: str) -> Table:
    """A table without a frame: the first column left, the others right; narrow terminals fold it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def head_grid(
    layers: Sequence[int],
    heads: Sequence[int],
    cell: Callable[[int, int], Text],
    canvas: Canvas,
    width: int = HEAD_WIDTH,
) -> list[Text]:
    """A row a layer, a column a head; heads that have no room beside the others follow below, in a block of their own.

    cell: what stands for a layer and a head, by their places in `layers` and `heads`: a text of `width` columns.
    """
    left = len(f"layer {max(layers)}") + 1
    across = max(1, (canvas.width - left) // width)
    lines = []
    for start in range(0, len(heads), across):
        places = range(start, min(start + across, len(heads)))
        numbers = "".join(f"{heads[place]:>{width}}" for place in places)
        lines.append(Text(f"{'head':<{left}}{numbers}", style=canvas.faint))
        for row, layer in enumerate(layers):
            line = Text(f"{f'layer {layer}':<{left}}")
            lines.append(line.append_text(Text().join(cell(row, place) for place in places)))
    return lines
