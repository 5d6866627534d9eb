"""Which laws a model keeps, in the terminal; made of what `check --json` prints of a model."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.render.terminal.agreement import PAST
from attncli.report.canvas import Canvas
from attncli.report.terminal import Prose, plain_table

WORDS = {True: "right", False: "WRONG", None: "-"}


def laws_table(document: dict[str, Any]) -> Table:
    """Return a row for each law and a column for each backend. What is wrong is red."""
    backends = [one["name"] for one in document["backends"] if one["available"]]
    holds = {(one["name"], one["backend"]): one["holds"] for one in document["checks"]}
    table = plain_table("law", *backends, names=backends)
    for law in dict.fromkeys(one["name"] for one in document["checks"]):
        cells = [holds.get((law, backend)) for backend in backends]
        table.add_row(law, *(Text(WORDS[one], style=PAST if one is False else "") for one in cells))
    return table


def laws_lines(document: dict[str, Any], canvas: Canvas) -> list[Prose]:
    """Return the verdict, where each leak is, why a law was not checked, and which backends are not available."""
    lines = [Prose(printable(document["verdict"]), canvas.strong)]
    for one in document["checks"]:
        if one["holds"] is False:
            lines.append(Prose(printable(f"{one['name']} ({one['backend']}): {one['says']}")))
    why = dict.fromkeys((one["name"], one["note"]) for one in document["checks"] if one["holds"] is None)
    lines += [Prose(printable(f"not checked: {law}: {note}")) for law, note in why]
    lines += [
        Prose(printable(f"not available: {one['name']}: {one['note']}"))
        for one in document["backends"]
        if not one["available"]
    ]
    return lines
