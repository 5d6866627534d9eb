"""Which heads find syntactic heads, as tables for the terminal; made of what `probe --json` prints."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.printable import printable
from attncli.render.tables import plain_table

NEVER = "-"  # a relation that is not in the treebank it is measured on
NARROW = 80  # columns; where there are fewer, those of the table stand closer together
SAME = "and measured on the same ones: the best of many looks better than it is, most of all with few words"


def probe_title(document: dict[str, Any]) -> Text:
    """Which model, which treebank, on which one the figures are, and whether they are partial."""
    chosen, test = document["treebank"], document["test"]
    state = "PARTIAL · " if document["partial"] else ""
    title = f"{state}{printable(document['model']['name'])} · heads chosen on {sentences(chosen)}\n"
    return Text(title + (SAME if test is None else f"measured on {sentences(test)}"))


def sentences(treebank: dict[str, Any]) -> str:
    count = treebank["sentences"]
    return f"{count} {'sentence' if count == 1 else 'sentences'} of {printable(treebank['path'])}"


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


def probe_end(document: dict[str, Any]) -> Text:
    """What the trees are measured by, and what joining all neighbours would give."""
    trees = document["trees"]
    return Text(
        f"trees: maximum spanning trees' share of {trees['edges']} edges without punctuation (UUAS); "
        f"neighbours joined: {percent(trees['neighbours'])}"
    )


def head_name(row: dict[str, Any]) -> str:
    return f"{row['layer']}.{row['head']}"


def percent(part: float | None) -> str:
    return NEVER if part is None else f"{100 * part:.1f}%"
