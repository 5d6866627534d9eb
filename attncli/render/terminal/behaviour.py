"""Which laws a model keeps, in the terminal; made of what `check --json` prints of a model."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.render.terminal.agreement import PAST
from attncli.report.canvas import Canvas
from attncli.report.terminal import Prose, plain_table

NOTE = "not promised"
WORDS = {True: "right", False: "WRONG", None: "-"}


def laws_table(document: dict[str, Any]) -> Table:
    """Return a row for each law and a column for each backend. What is wrong is red."""
    backends = [one["name"] for one in document["backends"] if one["available"]]
    holds = {(one["name"], one["backend"]): one["holds"] for one in document["checks"]}
    notes = {(one["name"], one["backend"]) for one in document["checks"] if one["note"].startswith(NOTE)}
    table = plain_table("law", *backends, names=backends)
    for law in dict.fromkeys(one["name"] for one in document["checks"]):
        keys = [(law, backend) for backend in backends]
        cells = [NOTE if holds.get(key) is None and key in notes else WORDS[holds.get(key)] for key in keys]
        table.add_row(law, *(Text(cell, style=PAST if cell == WORDS[False] else "") for cell in cells))
    return table


def laws_lines(document: dict[str, Any], canvas: Canvas) -> list[Prose]:
    """Return the verdict, the place of each leak, what is not promised, and what was not checked and why."""
    lines = [document["verdict"]]
    lines += [f"{one['name']} ({one['backend']}): {one['says']}" for one in document["checks"] if one["holds"] is False]
    checked = {one["name"] for one in document["checks"] if one["holds"] is not None}
    for one in document["checks"]:
        if one["note"].startswith(NOTE):
            lines.append(f"{one['name']}: {one['note']}")
        elif one["holds"] is None:
            law = f"{one['name']} with {one['backend']}" if one["name"] in checked else one["name"]
            lines.append(f"not checked: {law} ({one['note']})")
    lines += [f"not checked: {one['name']} ({one['note']})" for one in document["backends"] if not one["available"]]
    return [Prose(printable(line), "" if number else canvas.strong) for number, line in enumerate(dict.fromkeys(lines))]
