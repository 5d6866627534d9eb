"""What is said of one row of one head, step by step; made of what `explain --json` prints."""

from collections.abc import Sequence
from typing import Any

from attncli.base.printable import printable

FIRST = 6  # elements of a vector that are shown
HIDDEN = "masked"


def title(document: dict[str, Any]) -> str:
    """Which head and which query, and where the query comes from; three lines, or two where its input is not known."""
    name, query = printable(document["model"]["name"]), document["query"]
    which = f"layer {document['layer']} head {document['head']}"
    kind = [f"{document['kind']} attention"] if "kind" in document else []
    lines = [" · ".join([name, *kind, which, f"mask {document['mask']}", f"query {named(query)}"])]
    if "x" in query:
        lines.append(f"x = {vector(query['x'])}, the layer's input")
    made = "q = W_Q x + b_Q" if "x" in query else "q"
    return "\n".join([*lines, f"{made} = {vector(query['q'])}"])


def end(document: dict[str, Any]) -> str:
    """The output, and who brought most of it; two lines, or one where there is nothing, or values are not known."""
    keys = [key for key in document["keys"] if key["weight"] > 0]
    if not keys:
        return "this query may attend to nothing: its weights and its output are 0"
    by_weight = max(keys, key=lambda key: key["weight"])
    if "output" not in document:
        return f"most weight: {named(by_weight)} {by_weight['weight']:.3f}"
    by_norm = max(keys, key=lambda key: key["contribution"])
    said = f"most weight: {named(by_weight)} {by_weight['weight']:.3f}"
    said += f"; brings most: {named(by_norm)}, |weight v| {by_norm['contribution']:.3f}"
    return f"output = Σ weight v = {vector(document['output'])}\n{said}"


def named(place: dict[str, Any]) -> str:
    """A query or a key by its number and token."""
    return f'{place["index"]} "{printable(place["shown"])}"'


def vector(numbers: Sequence[float]) -> str:
    """The first elements of a vector, its size and its length."""
    more = ", ..." if len(numbers) > FIRST else ""
    shown = ", ".join(f"{number:.3f}" for number in numbers[:FIRST])
    return f"({shown}{more}) [{len(numbers)}]"
