"""One head in a window: its map with the selection marked, and its tokens with their strongest keys.

A map that does not fit is drawn as a picture (`attncli.report.terminal.picture`) until a token is selected. Then it is
the part around the selection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.difference import Difference
from attncli.analysis.edges import Edge
from attncli.base.arrays import Doubles, Floats
from attncli.base.printable import visible
from attncli.record import AttentionRecord
from attncli.record.display import drawn_map, largest_weight
from attncli.record.selection import numbered_names, selected_places
from attncli.report.canvas import Canvas, to_width
from attncli.report.heads import GAP, keys_within, strongest_keys
from attncli.report.terminal import (
    ROW_LABEL,
    VALUE_WIDTH,
    cell_text,
    picture,
    signed_cell,
    signed_ground,
    two_digits,
)

ROW_KEYS = 8  # keys named beside a query, at most
FIRST_KEYS = 3  # keys named in the line about a row
WIDTHS = (VALUE_WIDTH, 2, 1)
WIDEST = 8  # columns of a key
EVERY = 5  # keys from one number to the next, if there is no room for all
CHANGE_WIDTH = 4  # columns of a change with its number in it: "+.31"
CHANGE_WIDTHS = (CHANGE_WIDTH, 2, 1)
FRAMES = {2: "[]", 1: "□"}  # the selected cell if it has no number
DrawCell = Callable[[float, int], tuple[str, str]]


@dataclass(frozen=True)
class SelectedCell:
    """A head with its selected query and key. special: True if special tokens are shown."""

    layer: int
    head: int
    query: int | None = None
    key: int | None = None
    special: bool = True

    def sides(self, record: AttentionRecord) -> tuple[list[int], list[int]]:
        """Return the shown queries and keys; all of them if the filter would leave none."""
        if self.special or all(record.tokens.special) or all(record.keys.special):
            return list(range(len(record.tokens))), list(range(len(record.keys)))
        return selected_places(record.tokens, special=False, keys=record.keys)


@dataclass(frozen=True)
class MapWindow:
    """Lines, and the places in them: queries by line from `above` on, keys from column `left` on.

    wide: the columns of a key. high: the lines of a query.
    """

    lines: list[Text]
    queries: Sequence[int]
    keys: Sequence[int] = ()
    above: int = 0
    left: int = 0
    wide: int = 1
    high: int = 1

    def at(self, column: int, line: int) -> tuple[int | None, int | None]:
        """Return the query and the key at a place; None for each that is not there."""
        down, across = (line - self.above) // self.high, (column - self.left) // self.wide
        query = self.queries[down] if 0 <= down < len(self.queries) else None
        return query, self.keys[across] if 0 <= across < len(self.keys) else None


def weights_window(record: AttentionRecord, selected: SelectedCell, canvas: Canvas) -> MapWindow:
    """Return the map of the head, in the canvas."""

    def cell(weight: float, wide: int) -> tuple[str, str]:
        return cell_text(weight, wide, canvas)

    return map_window(drawn_map(record, selected.layer, selected.head), record, selected, canvas, WIDTHS, cell)


def changes_window(changes: Doubles, record: AttentionRecord, selected: SelectedCell, canvas: Canvas) -> MapWindow:
    """Return the changes of the weights of the head, `[query, key]`: blue is less, red is more.

    If the map does not fit, return a picture of the absolute changes, scaled so that the largest is 1.
    """
    most = largest_weight(np.abs(changes))

    def cell(number: float, wide: int) -> tuple[str, str]:
        content = signed_cell(number, most, wide, canvas)
        if wide == CHANGE_WIDTH:  # "+.31"; nothing if it is hidden (NaN) or below half a hundredth
            shown = f"{'+' if number > 0 else '-'}{two_digits(abs(number))}" if abs(number) >= 0.005 else ""
            content = shown.rjust(CHANGE_WIDTH)
        return content, "" if number != number else signed_ground(number / (most or 1), canvas)

    sizes = np.abs(changes) / (most or 1)
    return map_window(changes, record, selected, canvas, CHANGE_WIDTHS, cell, sizes)


def map_window(
    numbers: Floats | Doubles,
    record: AttentionRecord,
    selected: SelectedCell,
    canvas: Canvas,
    widths: Sequence[int],
    cell: DrawCell,
    pictured: Floats | Doubles | None = None,
) -> MapWindow:
    """Return the lines of a map: the numbers of the keys, then each query's label and its row. Mark the selected cell.

    Cells are as large as fits.

    cell: returns a number in so many columns, and its style. pictured: drawn as a picture if the map does not fit.
    """
    queries, keys = selected.sides(record)
    names = dict(zip(queries, labels(record, queries, canvas), strict=True))
    left, room = cell_len(names[queries[0]]) + 1, max(1, (canvas.height or len(queries) + 1) - 1)
    fitting = (canvas.width - left) // len(keys)
    wide = next((one for one in widths if one <= fitting), 0)
    if (wide == 0 or len(queries) > room) and selected.query is None:
        shown = (numbers if pictured is None else pictured)[np.ix_(queries, keys)]
        return MapWindow(picture(shown.astype(np.float32), canvas, min(len(keys), canvas.width), room + 1), [])
    drawn = wide or widths[-1]  # columns that a cell's content takes
    wide = min(fitting, WIDEST) if wide == widths[0] else drawn
    high = max(1, min((wide + 1) // 2, room // len(queries))) if wide >= widths[0] and canvas.colour else 1
    across, down = around(keys, selected.key, (canvas.width - left) // wide), around(queries, selected.query, room)
    end = (wide - drawn) // 2  # columns after the content
    lines = [Text(" " * left).append_text(key_numbers(across, selected.key, wide, end, canvas))]
    for query in down:
        blank, line = Text(" " * left), Text(f"{names[query]} ")
        if query == selected.query:
            line.stylize(mark(canvas), 0, left - 1)
        row = numbers[query].tolist()
        for key in across:
            content, style = cell(row[key], drawn)
            if (query, key) == (selected.query, selected.key):
                content, style = FRAMES.get(drawn, content), f"{style} bold underline"
            line.append(f"{content}{' ' * end}".rjust(wide), style)
            blank.append(" " * wide, style)
        above = (high - 1) // 2
        lines += [*[blank] * above, line, *[blank] * (high - 1 - above)]
    return MapWindow(lines, down, across, 1, left, wide, high)


def key_numbers(keys: Sequence[int], selected: int | None, wide: int, end: int, canvas: Canvas) -> Text:
    """Return the line with the numbers of the keys. If not all numbers fit, return every fifth.

    wide: the columns of a key. end: the columns between a number and the end of its key.
    """
    every = wide > len(str(keys[-1]))
    line = Text(" " * (wide * len(keys)))
    shown = [key for key in keys if every or key % EVERY == 0]
    for key in [*shown, *([selected] if selected in keys else [])]:
        stop = (keys.index(key) + 1) * wide - end
        start = max(stop - len(str(key)), 0)
        style = mark(canvas) if key == selected else canvas.faint
        line = Text.assemble(line[:start], (str(key)[-(stop - start) :], style), line[stop:])
    return line


def mark(canvas: Canvas) -> str:
    """Return the style of the label of a selected row, key, head or finding, readable in dark and light themes."""
    return "bold black on rgb(255,166,43)" if canvas.colour else "bold underline"


def around(places: Sequence[int], selected: int | None, room: int) -> list[int]:
    """Return as many places as fit, with the selected one in the middle if possible."""
    at = places.index(selected) if selected in places else 0
    start = max(0, min(at - max(room, 1) // 2, len(places) - max(room, 1)))
    return list(places[start : start + max(room, 1)])


def labels(record: AttentionRecord, queries: Sequence[int], canvas: Canvas) -> list[str]:
    """Return the numbers and tokens of queries, all of one width."""
    shown = [visible(record.tokens.shown[query]) for query in queries]
    width = min(ROW_LABEL, max(map(cell_len, shown)), max(1, canvas.width // 3))
    return [f"{query:>3} {to_width(token, width, canvas)}" for query, token in zip(queries, shown, strict=True)]


def tokens_window(record: AttentionRecord, selected: SelectedCell, canvas: Canvas) -> MapWindow:
    """Return a line per token with its strongest shown keys, as many as fit."""
    queries, keys = selected.sides(record)
    names = dict(zip(queries, labels(record, queries, canvas), strict=True))
    key_names = numbered_names(record.keys)
    down = around(queries, selected.query, canvas.height or len(queries))
    out = np.ones(len(record.keys), dtype=bool)
    out[keys] = False
    lines = []
    for query in down:
        row = np.where(out, np.float32(0), record.map(selected.layer, selected.head)[query])
        room = max(1, canvas.width - cell_len(names[query]) - GAP)
        named = keys_within(strongest_keys(key_names, row, ROW_KEYS), room, canvas.ellipsis)
        line = Text(f"{names[query]}{' ' * GAP}{named}", no_wrap=True)
        if query == selected.query:
            line.stylize(mark(canvas), 0, len(names[query]))
        lines.append(line)
    return MapWindow(lines, down)


# --- the numbers of the selected cell --------------------------------------------------------------------


def cell_lines(
    record: AttentionRecord, head: tuple[int, int], query: int, key: int, edge: Edge | None, found: Difference | None
) -> list[str]:
    """Describe a cell of a head (layer, head) in one line and, if there is a difference, its change in another.

    edge: the cell as a strong edge, with its usual weight, if it is one.
    """
    row = record.map(*head)[query]
    allowed = record.mask_of(head[0])[query]
    names = visible(record.tokens.shown[query]), visible(record.keys.shown[key])
    line = f"{query} {names[0]} → {key} {names[1]}: {record.measure} {row[key]:.4f}"
    if not allowed[key]:
        line += ", hidden by the mask"
    else:
        rank = int((row > row[key]).sum()) + 1
        line += f", rank {rank} of {int(allowed.sum())} keys (uniform: {1 / max(int(allowed.sum()), 1):.4f})"
    if edge is not None:
        line += f"; usual {edge.usual:.2f}"
    if found is None:
        return [line]
    one, other = (float(side.map(*head)[query, key]) for side in (found.first, found.second))
    return [
        line,
        f"before {one:.4f}, now {other:.4f}: {other - one:+.4f}; {found.of(*head):.3f} of the head's weight moved",
    ]


def row_line(record: AttentionRecord, head: tuple[int, int], query: int) -> str:
    """Describe a query's row by its strongest keys and its entropy."""
    keys = keys_within(strongest_keys(numbered_names(record.keys), record.map(*head)[query], FIRST_KEYS))
    row = record.map(*head)[query].astype(np.float64)
    entropy = float(-(row[row > 0] * np.log(row[row > 0])).sum())
    most = float(np.log(max(int(record.mask_of(head[0])[query].sum()), 1)))
    return (
        f"{query} {visible(record.tokens.shown[query])} → {keys}; entropy {abs(entropy):.2f} of at most {most:.2f} nats"
    )
