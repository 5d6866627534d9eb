"""Tables for the terminal; that of `compare` is made of what --json prints."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from attncli.printable import printable

PAST = "bold red"


def plain_table(first: str, *others: str) -> Table:
    """A table without a frame: the first column left, the others right; narrow terminals fold it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def agreement_table(document: dict[str, Any]) -> Table:
    """One row a layer; `document` is what `compare --json` prints. What is past the tolerance is red."""
    beside_network = document["against"] == "transformers"
    vectors = "hidden states" if beside_network else "attention output"
    table = plain_table("layer", "weights", vectors, "same strongest key")
    tolerance = document["tolerance"]
    if beside_network:
        table.add_row("embeddings", "", size(document["embeddings"], tolerance["hidden"]), "")
    for layer in document["layers"]:
        table.add_row(
            str(layer["layer"]),
            size(layer["weights"], tolerance["weights"]),
            size(layer["hidden"], tolerance["hidden"]),
            share(layer["agreement"]),
        )
    return table


def agreement_title(document: dict[str, Any]) -> Text:
    """What is compared with what, on what: it stands above the table, which may be narrower."""
    name = printable(document["model"]["name"])
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


def size(difference: float | None, allowed: float) -> Text:
    """A difference with two digits; null stands for what is not a number."""
    if difference is None:
        return Text("NaN", style=PAST)
    return Text(f"{difference:.1e}" if difference else "0", style="" if difference <= allowed else PAST)


def share(part: float) -> str:
    """In percent, rounded down: only all of it is 100%."""
    return f"{int(part * 1000) / 10:.1f}%" if part < 1 else "100%"
