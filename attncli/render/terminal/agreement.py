"""How far the program is from another one, as a table for the terminal; made of what `compare --json` prints."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable, short
from attncli.report.terminal import plain_table

PAST = "bold red"


def agreement_table(document: dict[str, Any]) -> Table:
    """One row a layer. What is past the tolerance is red. In half precision there are columns for the errors."""
    of_hidden = document["vectors"] == "hidden states"
    vectors = "hidden states" if of_hidden else "attention output"
    half = any(layer["rounding"] for layer in document["layers"])
    of_errors = ["weights' errors", f"{vectors}' errors", "scores' scale"] if half else []
    table = plain_table("layer", "weights", vectors, "same strongest key", *of_errors, goes=["same strongest key"])
    if of_hidden:
        of_embeddings = difference_text(document["embeddings"], document["embeddings_allowed"])
        table.add_row("embeddings", "", of_embeddings, *[""] * (1 + len(of_errors)))
    for layer in document["layers"]:
        table.add_row(
            str(layer["layer"]),
            difference_text(layer["weights"], layer["weights_allowed"]),
            difference_text(layer["hidden"], layer["hidden_allowed"]),
            agreeing(layer["agreement"]),
            *(rounding_texts(layer["rounding"]) if layer["rounding"] else [""] * len(of_errors)),
        )
    return table


def rounding_texts(rounding: dict[str, Any]) -> list[Text]:
    """How large the errors are, compared with those of the other program, and how far off the scores' scale is."""
    scale, allowed = rounding["scale"], rounding["scale_allowed"]
    found = [
        (None if error is None else f"{error:.2f}x", error, rounding["allowed"])
        for error in (rounding["weights"], rounding["hidden"])
    ]
    found.append((None if scale is None else f"{scale:+.1%}", scale, allowed))
    return [
        Text("NaN", style=PAST)
        if text is None
        else Text(text, style="" if allowed is None or abs(value) <= allowed else PAST)
        for text, value, allowed in found
    ]


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
    of_outputs = document["vectors"] != "hidden states"
    other = "transformers' own eager attention" if of_outputs else "transformers"
    if document["against"] == "torch":
        other = "torch.nn.MultiheadAttention"
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
