"""Which heads find syntactic heads, as tables for the terminal; made of what `probe --json` prints."""

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.render.captions.probe import FEW, end, head_name, interval, percent, title, verdicts
from attncli.report.terminal import Prose, plain_table

COLUMNS = ("head", "direction", "accuracy", "interval", "offset", "its accuracy", "words", "verdict")
GOES = ("interval", "offset", "direction", "its accuracy", "words")  # from the table on a narrow terminal


def probe_view(document: dict[str, Any]) -> list[RenderableType]:
    """What was measured on what, a row a relation, a row a layer's trees, and what those mean."""
    return [
        Prose(title(document)),
        relation_table(document),
        Prose(verdicts(document)),
        tree_table(document),
        Prose(end(document)),
    ]


def relation_table(document: dict[str, Any]) -> Table:
    """A row a relation: its best head and how often it finds, beside the best fixed offset, and which is the better."""
    table = plain_table("relation", *COLUMNS, goes=GOES)
    table.columns[-1].justify = "left"
    for row in document["relations"]:
        table.add_row(
            Text(printable(row["relation"])),
            head_name(row),
            row["direction"],
            percent(row["accuracy"]),
            interval(row),
            f"{row['offset']:+d}",
            percent(row["offset_accuracy"]),
            str(row["count"]),
            row["verdict"],
            style="dim" if row["verdict"] == FEW else None,
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
