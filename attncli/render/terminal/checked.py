"""Show in the terminal what `attncli check` found, from the document that --json prints."""

from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.base.printable import printable
from attncli.record.making import record_of
from attncli.render.terminal.agreement import PAST
from attncli.report.canvas import Canvas
from attncli.report.terminal import APART, POOLED, PanelSize, Prose, in_rows, legend, panel_lines, plain_table, scale

VERDICTS = {True: "right", False: "WRONG", None: "not checked"}
ACROSS = 2
LINES = 24  # a map is at most so many lines high
CAPTION = 30  # columns that the longest needs


def report(document: dict[str, Any], canvas: Canvas) -> list[RenderableType]:
    """Return the title, the checks, the maps if there are any, and the verdict."""
    maps = [] if document["maps"] is None else layer_maps(document["maps"], document["name"], canvas)
    return [*checks_title(document, canvas), checks_table(document), *maps, *diagnosis_lines(document, canvas)]


def checks_title(document: dict[str, Any], canvas: Canvas) -> list[Text | Prose]:
    """Return what was checked and, if it is wrong, how it was called."""
    title = Text(printable(f"{document['name']} as {document['kind']}"), style=canvas.strong)
    if document["right"] or not document["conventions"]:  # of a right one the verdict has them
        return [title]
    return [title, Prose(printable("; ".join(document["conventions"])))]


def checks_table(document: dict[str, Any]) -> Table:
    """Return a table with a row for each check. A wrong one is red."""
    table = plain_table(
        "check", "verdict", "difference", "note", names=["verdict"], prose=["check", "note"], goes=["note"]
    )
    for check in document["checks"]:
        difference = check["difference"]
        table.add_row(
            printable(check["name"]),
            Text(VERDICTS[check["holds"]], style=PAST if check["holds"] is False else ""),
            "" if difference is None else f"{difference:.1e}" if difference else "0",
            Text(printable(check["note"])),
        )
    return table


def diagnosis_lines(document: dict[str, Any], canvas: Canvas) -> list[Prose]:
    """Return the verdict, then for each mistake where it may be and what to change."""
    lines = [Prose(printable(document["verdict"]), canvas.strong)]
    for one in document["diagnosis"]:
        where = f"line {one['line']} has `{one['text']}` (a guess, by what it does): " if one["line"] else ""
        lines.append(Prose(printable(f"{where}{one['remedy']}")))
    if document["smallest"]:
        lines.append(Prose(printable(f"the smallest input that shows it, {document['smallest']}")))
    if document["hint"]:
        lines.append(Prose(printable(document["hint"])))
    return lines


def layer_maps(maps: dict[str, Any], name: str, canvas: Canvas) -> list[Text]:
    """Draw a head's own map, and beside it the map that somebody's attention gives with the layer's weights."""
    drawn = {"of the model": maps["ours"]} | ({f"by {printable(name)}": maps["theirs"]} if maps["theirs"] else {})
    record = record_of(np.array(maps["ours"]), maps["tokens"])
    size = PanelSize.of(record, max((canvas.width - APART * (ACROSS - 1)) // ACROSS, 1), LINES, caption=CAPTION)
    lines = [*legend(replace(record.tokens, shown=maps["shown"]), canvas), scale(canvas)]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    head = f"{maps['layer']}.{maps['head']}"
    panels = [panel_lines(f"{head} {by}", np.array(weights, np.float32), size, canvas) for by, weights in drawn.items()]
    return [*lines, Text(), *in_rows(panels, size.width, canvas)]
