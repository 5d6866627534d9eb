"""What checking somebody's attention found, in the terminal; made of what `check --json` prints."""

from typing import Any

from rich.table import Table
from rich.text import Text

from attncli.base.arrays import Floats
from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.render.terminal.agreement import PAST
from attncli.render.terminal.canvas import Canvas
from attncli.render.terminal.headings import legend, scale
from attncli.render.terminal.panels import APART, POOLED, PanelSize, in_rows, panel
from attncli.render.terminal.tables import Prose, plain_table

VERDICTS = {True: "right", False: "WRONG", None: "not checked"}
ACROSS = 2
LINES = 24  # a map is at most so many lines high
CAPTION = 30  # columns that the longest needs


def checks_title(document: dict[str, Any], canvas: Canvas) -> list[Text | Prose]:
    """What was checked, and how it is called."""
    title = Text(printable(f"{document['name']} as {document['kind']}"), style=canvas.strong)
    if document["right"] or not document["conventions"]:  # the verdict has them where it is right
        return [title]
    return [title, Prose(printable("; ".join(document["conventions"])))]


def checks_table(document: dict[str, Any]) -> Table:
    """One row a check. What is wrong is red."""
    table = plain_table(
        "check", "verdict", "difference", "note", names=["verdict"], prose=["check", "note"], goes=["note"]
    )
    for check in document["checks"]:
        difference = check["difference"]
        table.add_row(
            check["name"],
            Text(VERDICTS[check["holds"]], style=PAST if check["holds"] is False else ""),
            "" if difference is None else f"{difference:.1e}" if difference else "0",
            Text(printable(check["note"])),
        )
    return table


def diagnosis_lines(document: dict[str, Any], canvas: Canvas) -> list[Prose]:
    """The verdict; then, for each mistake, where it may be and what to change."""
    lines = [Prose(printable(document["verdict"]), canvas.strong)]
    for one in document["diagnosis"]:
        where = f"line {one['line']} has `{one['text']}` (a guess, by what it does): " if one["line"] else ""
        lines.append(Prose(printable(f"{where}{one['remedy']}")))
    if document["smallest"]:
        lines.append(Prose(printable(f"the smallest input that shows it, {document['smallest']}")))
    if document["hint"]:
        lines.append(Prose(printable(document["hint"])))
    return lines


def layer_maps(record: AttentionRecord, name: str, theirs: Floats | None, ours: Floats, canvas: Canvas) -> list[Text]:
    """A head's map as somebody's attention gives it with the layer's weights, beside the true one."""
    [layer], [head] = record.layers, record.heads
    size = PanelSize.of(record, max((canvas.width - APART * (ACROSS - 1)) // ACROSS, 1), LINES, caption=CAPTION)
    lines = [*legend(record.tokens, canvas), scale(canvas)]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    maps = {f"{layer}.{head} of the model": ours}
    if theirs is not None:
        maps[f"{layer}.{head} by {printable(name)}"] = theirs
    panels = [panel(caption, weights, size, canvas) for caption, weights in maps.items()]
    return [*lines, Text(), *in_rows(panels, size.width, canvas)]
