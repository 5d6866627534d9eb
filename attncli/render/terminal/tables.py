"""What tables and grids of heads in the terminal have in common."""

from rich import box
from rich.table import Table

HEAD_WIDTH = 5  # columns of a head in a grid with a row a layer


def plain_table(first: str, *others: str) -> Table:
    """A table without a frame: the first column left, the others right; narrow terminals fold it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table
