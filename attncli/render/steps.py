"""One row of one head, step by step, as a table for the terminal; made of what `explain --json` prints."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.printable import printable
from attncli.render.tables import plain_table

FIRST = 6  # elements of a vector that are shown
HIDDEN = "masked"


def steps_title(document: dict[str, Any]) -> Text:
    """Which head and which query, and where the query comes from."""
    name, query = printable(document["model"]["name"]), document["query"]
    token = printable(query["token"])
    return Text(
        f"{name} · layer {document['layer']} head {document['head']} · mask {document['mask']} · "
        f'query {query["index"]} "{token}"\n'
        f"x = {vector(query['x'])}, the layer's input\n"
        f"q = W_Q x + b_Q = {vector(query['q'])}"
    )


def steps_table(document: dict[str, Any]) -> Table:
    """A row a key: score, scaled score, what is left of it after the mask and exp, weight, contribution."""
    largest, size = document["largest"], len(document["query"]["q"])
    table = plain_table("key", "q·k", f"/ √{size}", f"exp(· - {largest:.2f})", "/ sum = weight", "|v|", "|weight v|")
    for key in document["keys"]:
        may = key["allowed"]
        table.add_row(
            Text(f"{key['index']:>3} {printable(key['token'])}"),
            f"{key['score']:.3f}",
            f"{key['scaled']:.3f}",
            f"{key['raised']:.4f}" if may else HIDDEN,
            f"{key['weight']:.3f}",
            f"{key['value_norm']:.3f}",
            f"{key['contribution']:.3f}",
        )
    table.add_section()
    weights = sum(key["weight"] for key in document["keys"])
    norm = document["output_norm"]
    table.add_row(Text("    sum"), "", "", f"{document['total']:.4f}", f"{weights:.3f}", "", f"|Σ| = {norm:.3f}")
    return table


def steps_end(document: dict[str, Any]) -> Text:
    """The output, and who brought most of it."""
    keys = [key for key in document["keys"] if key["weight"] > 0]
    if not keys:
        return Text("this query may attend to nothing: its weights and its output are 0")
    by_weight = max(keys, key=lambda key: key["weight"])
    by_norm = max(keys, key=lambda key: key["contribution"])
    said = f"most weight: {named(by_weight)} {by_weight['weight']:.3f}"
    said += f"; brings most: {named(by_norm)}, |weight v| {by_norm['contribution']:.3f}"
    return Text(f"output = Σ weight v = {vector(document['output'])}\n{said}")


def named(key: dict[str, Any]) -> str:
    return f'{key["index"]} "{printable(key["token"])}"'


def vector(numbers: Sequence[float]) -> str:
    """The first elements of a vector, its size and its length."""
    more = ", ..." if len(numbers) > FIRST else ""
    shown = ", ".join(f"{number:.3f}" for number in numbers[:FIRST])
    return f"({shown}{more}) [{len(numbers)}]"
