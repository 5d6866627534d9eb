"""Patches in the terminal: a share a head, a layer or a token of a layer, and the largest beside their controls."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.analysis.patches import Patch
from attncli.base.printable import printable
from attncli.render.captions.patches import CONTROL, SHARE, both, part_name, put_where
from attncli.report.canvas import Canvas
from attncli.report.captions import model_name
from attncli.report.terminal import Prose, head_grid, largest, legend, plain_table, signed_ground, signed_map, title

CELL = 7  # columns of a head


def patch_view(found: Patch, top: int, canvas: Canvas) -> list[RenderableType]:
    """Both outputs; a number a part; the `top` parts with the largest shares, and all at once."""
    return [
        title([model_name(found.model.shown), printable(both(found))], canvas),
        Prose(put_where(found)),
        Prose(SHARE),
        *grid(found, canvas),
        table(found, top),
        Prose(CONTROL),
    ]


def grid(found: Patch, canvas: Canvas) -> list[Text]:
    """Layers down; heads or tokens across. Nothing for layers, which the table has."""
    shares, most = found.shares, largest(found.shares)

    def cell(row: int, place: int) -> Text:
        share = float(shares[row, place])
        return Text(f"{share:>{CELL}.2f}", style=signed_ground(share / (most or 1), canvas))

    if found.by == "head":
        return [Text(), *head_grid(found.layers, found.heads, cell, canvas, (CELL, CELL - 1))]
    if found.by == "token":
        wide = len(str(max(found.layers)))
        labels = [f"layer {layer:>{wide}}" for layer in found.layers]
        return [Text(), *legend(found.tokens, canvas), *signed_map(shares, most, labels, canvas)]
    return []


def table(found: Patch, top: int) -> Table:
    """A row a part; below, all of them at once, and the first text's own outputs put where they were."""
    what = "patched"
    made = plain_table(what, "share", "control")
    rows = found.ranked() if found.by != "layer" else [(row, 0) for row in range(len(found.layers))]
    for place in rows[:top] if found.by != "layer" else rows:
        made.add_row(
            Text(part_name(found, *place)), f"{found.shares[place]:+.3f}", f"{found.control_shares[place]:+.3f}"
        )
    control = float(found.together_controls.mean()) / found.difference
    made.add_row("all of these at once", f"{found.together / found.difference:+.3f}", f"{control:+.3f}")
    made.add_row("all, of the first text's own", f"{abs(found.itself / found.difference):.3g}", "")
    return made
