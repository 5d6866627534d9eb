"""One row of one head, step by step, as a table for the terminal; made of what `explain --json` prints."""

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.steps import BY_VALUE
from attncli.base.printable import visible
from attncli.render.captions import steps
from attncli.report.terminal import Prose, plain_table


def steps_view(document: dict[str, Any]) -> list[RenderableType]:
    """Where the query comes from, a row a key, and what comes out."""
    return [Prose(steps.title(document)), steps_table(document), Prose(steps.end(document))]


def steps_table(document: dict[str, Any]) -> Table:
    """A row a key: from q·k to the score, what is left of it after the mask and exp, weight; of known values more."""
    scores = steps.score_steps(document)
    raised = steps.raised_heading(document)
    of_values = ["|v|", "|weight v|"] if "output" in document else []
    goes = [*of_values[:1], raised, steps.scaled(document)]
    table = plain_table("key", *(step.heading for step in scores), raised, "/ sum = weight", *of_values, goes=goes)
    for place, key in enumerate(document["keys"]):
        may = key["allowed"]
        table.add_row(
            Text(f"{key['index']:>3} {visible(key['shown'])}"),
            *(step.texts[place] for step in scores),
            f"{key['raised']:.4f}" if may else steps.HIDDEN,
            f"{key['weight']:.3f}",
            *(f"{key[name]:.3f}" for name in BY_VALUE if of_values),
        )
    table.add_section()
    if "sink" in document:
        before = ("" for _ in scores[1:])
        table.add_row(Text("    sink"), *before, *steps.sink(document), *("" for _ in of_values))
    weights = sum(key["weight"] for key in document["keys"])
    norm = ("", f"|Σ| = {document['output_norm']:.3f}") if of_values else ()
    table.add_row(Text("    sum"), *("" for _ in scores), f"{document['total']:.4f}", f"{weights:.3f}", *norm)
    return table
