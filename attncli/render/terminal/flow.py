"""Where tokens come from, by rollout and flow, in the terminal; beside it the raw weights.

Shares are `[layer, query, input token]` by the name of their method, of the layers and queries that are shown.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from attncli.analysis.following import Followed, followed_maps
from attncli.analysis.patterns import strongest
from attncli.base.arrays import Doubles
from attncli.base.printable import printable, visible
from attncli.record import AttentionRecord
from attncli.record.selection import number_list, numbered_names
from attncli.render.captions.flow import MEANING
from attncli.report.canvas import Canvas
from attncli.report.terminal import (
    APART,
    LEAST_NAME,
    FittedTable,
    PanelSize,
    beside,
    ground,
    heading,
    legend,
    panel_lines,
    plain_table,
    scale,
)

NAMED = 2  # the strongest tokens of a row, at most
GOES = ("raw", "flow", "rollout")  # the methods that a narrow terminal does without first


def layer_views(found: Followed, canvas: Canvas) -> list[Text | Table]:
    """For each layer a small map a method, beside each other, and a table of every query's strongest tokens."""
    record, shares, maps = found.record, found.shares, followed_maps(found)
    room = max(1, (canvas.width - APART * (len(shares) - 1)) // len(shares))
    size = PanelSize.of(record, room, caption=max(map(len, shares)))
    views: list[Text | Table] = [*legend(record.tokens, canvas), scale(canvas, *maps.values()), *meanings(shares)]
    if size.columns < len(record.tokens):
        views.append(Text("a cell is the largest of the shares that fall into it"))
    for number, layer in enumerate(found.layers):
        panels = [panel_lines(name, rows[number], size, canvas, canvas.strong) for name, rows in maps.items()]
        views += [Text(), layer_heading(record, layer, canvas), Text(), *beside(panels, size.width), Text()]
        of_layer = {name: rows[number] for name, rows in shares.items()}
        views.append(strongest_table(record, found.queries, of_layer, canvas))
    return views


def strongest_table(
    record: AttentionRecord, queries: Sequence[int], shares: Mapping[str, Doubles], canvas: Canvas
) -> Table:
    """A row a query, with the tokens that it takes most from by each method, as many as all methods have room for.

    shares: `[query, input token]`.
    """
    for count in range(NAMED, 0, -1):
        table = share_table("token", shares)
        for column in table.columns:
            column.justify = "left"
        for place, query in enumerate(queries):
            table.add_row(
                label(record, query), *(named(record, rows[place], count, canvas) for rows in shares.values())
            )
        if canvas.height is None or table.fits(canvas.width):
            break
    return table


def share_table(first: str, shares: Mapping[str, Doubles]) -> FittedTable:
    """With a column a method."""
    return plain_table(first, *shares, goes=[name for name in GOES if name in shares])


def token_tables(found: Followed, canvas: Canvas) -> list[Text | Table]:
    """For each layer a table of the first query's shares: a row an input token."""
    record, shares = found.record, found.shares
    views: list[Text | Table] = [*meanings(shares)]
    for number, layer in enumerate(found.layers):
        table = share_table("input token", shares)
        for key in range(len(record.tokens)):
            row = [float(rows[number, 0, key]) for rows in shares.values()]
            table.add_row(label(record, key), *(Text(f"{share:.3f}", style=ground(share, canvas)) for share in row))
        whose = f'token {found.queries[0]} "{printable(record.tokens.shown[found.queries[0]])}"'
        views += [Text(), layer_heading(record, layer, canvas), Text(whose, style=canvas.strong), table]
    return views


def meanings(shares: Mapping[str, Doubles]) -> list[Text]:
    """What the methods are."""
    return [Text(MEANING[name]) for name in shares]


def layer_heading(record: AttentionRecord, layer: int, canvas: Canvas) -> Text:
    """The model, the layer and the heads whose mean it is."""
    return heading(record, f"layer {layer}, mean of heads {number_list(record.heads)}", canvas)


def label(record: AttentionRecord, place: int) -> Text:
    return Text(f"{place:>3} {visible(record.tokens.shown[place])}")


def named(record: AttentionRecord, row: Doubles, count: int, canvas: Canvas) -> Text:
    """The strongest tokens of a row with their shares; long tokens are cut, but not in a pipe."""
    found = strongest(row.astype(np.float32), count)
    if not found:
        return Text("(attends to nothing)")
    every = numbered_names(record.tokens)
    names = [canvas.within(every[key], LEAST_NAME) for key, _ in found]
    return Text("  ".join(f"{name} {share:.3f}" for name, (_, share) in zip(names, found, strict=True)))
