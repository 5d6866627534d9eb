"""Which heads find syntactic heads, as tables for the terminal; made of what `probe --json` prints."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.render.captions.probe import end, head_name, percent, title
from attncli.render.terminal.tables import plain_table

NARROW = 80  # columns; where there are fewer, those of the table stand closer together


def probe_view(document: dict[str, Any], width: int = NARROW) -> list[Text | Table]:
    """What was measured on what, a row a relation, a row a layer's trees, and what those mean; for so many columns."""
    return [Text(title(document)), relation_table(document, width), tree_table(document), Text(end(document))]


def relation_table(document: dict[str, Any], width: int = NARROW) -> Table:
    """A row a relation: its best head and how often it finds, beside the best fixed offset; for so many columns."""
    table = plain_table("relation", "head", "direction", "accuracy", "offset", "its accuracy", "words")
    if width < NARROW:
        table.padding = (0, 0)
        table.columns[5].header = "its\naccuracy"
        for column in table.columns[1:]:
            column.no_wrap = True
    for row in document["relations"]:
        table.add_row(
            Text(printable(row["relation"])),
            head_name(row),
            row["direction"],
            percent(row["accuracy"]),
            f"{row['offset']:+d}",
            percent(row["offset_accuracy"]),
            str(row["count"]),
        )
    return table


def tree_table(document: dict[str, Any]) -> Table:
    """A row a layer: how much of the trees is in the spanning tree of its mean map, and of its best head's."""
    table = plain_table("layer", "tree of the mean map", "best head", "its tree")
    for row in document["trees"]["layers"]:
        table.add_row(
            str(row["layer"]),
            percent(row["uuas"]),
            f"{row['layer']}.{row['best_head']}",
            percent(row["best_head_uuas"]),
        )
    return table
