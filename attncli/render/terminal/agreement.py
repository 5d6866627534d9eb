"""How far the program is from another one, as a table for the terminal; made of what `compare --json` prints."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable, short
from attncli.render.terminal.tables import plain_table

PAST = "bold red"


def agreement_table(document: dict[str, Any]) -> Table:
    """One row a layer. What is past the tolerance is red."""
    beside_network = document["against"] == "transformers"
    vectors = "hidden states" if beside_network else "attention output"
    table = plain_table("layer", "weights", vectors, "same strongest key", goes=["same strongest key"])
    tolerance = document["tolerance"]
    if beside_network:
        table.add_row("embeddings", "", difference_text(document["embeddings"], tolerance["hidden"]), "")
    for layer in document["layers"]:
        table.add_row(
            str(layer["layer"]),
            difference_text(layer["weights"], tolerance["weights"]),
            difference_text(layer["hidden"], tolerance["hidden"]),
            agreeing(layer["agreement"]),
        )
    return table


def ways_table(document: dict[str, Any]) -> Table:
    """One row a way in which numbers are made. What is past its tolerance is red."""
    table = plain_table("way", "what", "difference", "allowed", names=["what"], goes=["what", "allowed"])
    for way in document["ways"]:
        alike = way["same"] and way["difference"] is None
        found = Text("not compared") if alike else difference_text(way["difference"], way["allowed"])
        what = f"{way['of']}: {way['note']}" if way["note"] else way["of"]
        table.add_row(
            Text(way["way"]), Text(printable(what)), found, short(way["allowed"]) if way["allowed"] else "none"
        )
    return table


def agreement_title(document: dict[str, Any]) -> Text:
    """What is compared with what, on what: it stands above the table, which may be narrower."""
    of = document["model"]
    name = printable(f"{of['name']} {of.get('changes', '')}".strip())
    random = document["weights"] == "random"
    model = f"{name}'s architecture with RANDOM WEIGHTS (seed 0)" if random else name
    other = "transformers" if document["against"] == "transformers" else "torch.nn.MultiheadAttention"
    texts = "1 text" if document["texts"] == 1 else f"{document['texts']} texts"
    left_out = document["tokens"] - document["queries"]
    return Text(
        f"{model} beside {other}: the largest differences\n"
        f"{document['dtype']}, mask {document['mask']}, {texts}, {document['tokens']} tokens"
        + (f" (the rows of {left_out} [PAD] do not count: --dtype float64 has room for them)" if left_out else "")
    )


def difference_text(difference: float | None, allowed: float) -> Text:
    """A difference with two digits; null stands for what is not a number."""
    if difference is None:
        return Text("NaN", style=PAST)
    return Text(f"{difference:.1e}" if difference else "0", style="" if difference <= allowed else PAST)


def agreeing(part: float) -> str:
    """In percent, rounded down: only all of it is 100%."""
    return f"{int(part * 1000) / 10:.1f}%" if part < 1 else "100%"
