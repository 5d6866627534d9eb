"""All heads of some layers as a grid, in the columns and lines that there are."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

from attncli.render.terminal.canvas import Canvas

HEAD_WIDTH = 5  # columns of a head with a figure
APART = 2  # columns between layers that stand beside each other


class Layout(NamedTuple):
    """Columns of a head, heads beside each other, layers beside each other, and the largest number of a layer."""

    cell: int
    heads: int
    across: int
    last: int

    @property
    def label(self) -> int:
        """Columns before a layer's heads: its name, or, of several beside each other, its number."""
        return len(f"layer {self.last} ") if self.across == 1 else len(f"{self.last} ")

    @property
    def width(self) -> int:
        """Columns of a layer, and of what stands between it and the one beside it."""
        return self.label + self.heads * self.cell + APART


def head_grid(
    layers: Sequence[int],
    heads: Sequence[int],
    cell: Callable[[int, int], Text],
    canvas: Canvas,
    widths: Sequence[int] = (HEAD_WIDTH,),
    lines: int | None = None,
) -> list[Text]:
    """A layer in a line, a head in a column, with the heads' numbers above.

    cell: what stands for a layer and a head, by their places in `layers` and `heads`; widths: the columns that a head
    may take, from those that look best; its cell stands at their right end.
    lines: how many there is room for; where there are more layers, they stand beside each other as far as the width
    allows. Heads that have no room beside the others follow below, in a block of their own.
    """
    layout = layout_of(layers, len(heads), canvas.width, widths, lines)
    rows = -(-len(layers) // layout.across)
    grid = []
    for start in range(0, len(heads), layout.heads):
        places = range(start, min(start + layout.heads, len(heads)))
        title = "head" if layout.across == 1 else ""
        numbers = title.ljust(layout.label) + head_numbers([heads[place] for place in places], layout.cell)
        grid.append(Text("".join(numbers.ljust(layout.width) for _ in range(layout.across)).rstrip(), canvas.faint))
        for row in range(rows):
            line = Text()
            for column, place in enumerate(range(row, len(layers), rows)):
                line.pad_right(column * layout.width - line.cell_len)
                name = f"layer {layers[place]}" if layout.across == 1 else f"{layers[place]:>{layout.label - 1}}"
                line.append(name.ljust(layout.label))
                for head in places:
                    shown = cell(place, head)
                    line.append(" " * (layout.cell - shown.cell_len)).append_text(shown)
            grid.append(line)
    return grid


def layout_of(layers: Sequence[int], heads: int, columns: int, widths: Sequence[int], lines: int | None) -> Layout:
    """As few layers beside each other as the lines ask for, and then as wide as there is room; where the width does
    not allow that many, as many as it does.
    """
    most = 1 if lines is None else len(layers)
    every = [Layout(width, heads, across, max(layers)) for across in range(1, most + 1) for width in widths]
    fitting = [layout for layout in every if layout.across * layout.width - APART <= columns]
    if not fitting:
        narrow = Layout(min(widths), heads, 1, max(layers))
        return narrow._replace(heads=max(1, (columns - narrow.label) // narrow.cell))
    low = [layout for layout in fitting if lines is None or -(-len(layers) // layout.across) <= lines]
    return low[0] if low else max(fitting, key=lambda layout: layout.across)


def head_numbers(heads: Sequence[int], width: int) -> str:
    """Above their heads; of every second one where there is no room for all."""
    if width > len(str(max(heads))):
        return "".join(f"{head:>{width}}" for head in heads)
    return "".join(f"{head:<{2 * width}}" for head in heads[::2])
