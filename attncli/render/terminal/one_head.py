"""One head large: a row a query with its token, its weights, and its strongest keys."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.patterns import HeadSummary, strongest, summarise
from attncli.base.arrays import Floats
from attncli.base.printable import visible
from attncli.record import AttentionRecord
from attncli.record.selection import numbered_names
from attncli.render.hidden import drawn_map
from attncli.render.terminal.glyphs import possible_keys
from attncli.report.canvas import Canvas, cut, to_width
from attncli.report.terminal import (
    LINES,
    VALUE_WIDTH,
    cell_text,
    fold,
    heading,
    key_legend,
    picture,
    scale,
    unknown_note,
)
from attncli.text.tokens import Tokens

LABEL_WIDTH = 14  # columns of a token
CELL_WIDTHS = (VALUE_WIDTH, 2, 1)  # the widest that fits is taken
LEAST_KEYS = 12  # columns for a strongest key, at the least
GAP = 2  # columns before strongest keys
NOTHING = "(may attend to nothing)"
BELOW = 3  # lines of a terminal for what comes after: an empty one, what to type next, and the prompt


def one_head(record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """One head of a record, the fullest view for which the canvas has room.

    Cells carry their numbers where the width allows, else only their colour or shade; a text too long even
    for that gets a picture. The strongest keys stand beside the map where there is room, else below it. Where that is
    higher than the terminal, the cells become smaller until the keys have room beside them, or the keys go, and a line
    says so.
    """
    drawn = Drawn.of(record, layer, head, canvas, top_k)
    if canvas.height is None:
        return next(drawn.views())
    room = canvas.height - BELOW
    views = list(drawn.views())
    smallest = [
        *min(views, key=len),
        *drawn.note("longer than the terminal: | less -S turns pages, --words has fewer rows"),
    ]
    return next((view for view in views if len(view) <= room), smallest)


@dataclass(frozen=True)
class Drawn:
    """What is drawn: a head's map, a label a query, and its strongest keys with their weights."""

    record: AttentionRecord
    layer: int
    head: int
    canvas: Canvas
    weights: Floats
    labels: Sequence[str]
    keys: Sequence[Sequence[tuple[str, str]]]

    @classmethod
    def of(cls, record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int) -> "Drawn":
        weights = drawn_map(record, layer, head)
        names = numbered_names(record.keys)
        keys = [strongest_keys(names, row, top_k) for row in weights]
        return cls(record, layer, head, canvas, weights, query_labels(record.tokens, canvas), keys)

    @property
    def left(self) -> int:
        """Columns before the map."""
        return cell_len(self.labels[0]) + 1

    def room(self, cell: int) -> int:
        """Columns for keys beside a map with cells of so many columns."""
        return self.canvas.width - self.left - len(self.record.keys) * cell - GAP

    def views(self) -> Iterator[list[Text]]:
        """From the fullest to the smallest."""
        longest = max(cell_len(in_width(keys)) for keys in self.keys)
        cells = [cell for cell in CELL_WIDTHS if self.room(cell) >= -GAP] or [0]
        whole = [cell for cell in cells if cell and self.room(cell) >= longest]
        partly = [cell for cell in cells if cell and self.room(cell) >= LEAST_KEYS]
        full = self.map(cells[0], beside=cells[0] in whole)
        if cells[0] not in whole:
            full = [*full, Text(), *self.list_of_keys()]
        yield [*self.above(), Text(), *full]
        for cell in dict.fromkeys([*whole[:1], *partly[:1]]):
            gone = ["the numbers in the cells"] * (cell < cells[0] == VALUE_WIDTH) + ["all strongest keys"] * (
                cell not in whole
            )
            small = [*self.map(cell, beside=True), *self.left_out(gone)]
            yield [*self.above(), Text(), *small]
            yield [*self.above(), *small]
            yield [*self.above(short=True), *small]
        alone = self.map(cells[0], beside=False)
        yield [*self.above(), *alone, *self.left_out(["strongest keys"])]

    def above(self, short: bool = False) -> list[Text]:
        """What it is of, what kind of head it is, and what the colours mean."""
        title = heading(self.record, f"layer {self.layer} head {self.head}", self.canvas)
        return [
            *self.folded(title.plain, self.canvas.strong),
            *self.folded(about(self.record, self.layer, self.head, short)),
            *(key_legend(self.record, self.canvas) or unknown_note(self.record.tokens, self.canvas)),
            scale(self.canvas, self.weights),
        ]

    def map(self, cell: int, beside: bool) -> list[Text]:
        """A row a query, with cells of so many columns and keys beside them or not; a picture where that is 0."""
        length = len(self.record.keys)
        if cell == 0:
            most = LINES if self.canvas.height is None else max(1, self.canvas.height - BELOW - len(self.above()) - 1)
            return picture(self.weights, self.canvas, min(length, self.canvas.width), min(LINES, most))
        lines = []
        if cell == VALUE_WIDTH:
            numbers = "".join(f"{key:>{cell}}" for key in range(length))
            lines.append(Text(" " * self.left + numbers, style=self.canvas.faint))
        for label, row, keys in zip(self.labels, self.weights.tolist(), self.keys, strict=True):
            line = Text(label + " ")
            for weight in row:
                line.append(*cell_text(weight, cell, self.canvas))
            named = in_width(keys, self.room(cell), self.canvas.ellipsis) if beside else ""
            lines.append(line.append(" " * GAP + named if beside else ""))
        return lines

    def list_of_keys(self) -> list[Text]:
        """A row a query with its strongest keys."""
        room = max(self.canvas.width - self.left - 1, LEAST_KEYS)
        return [
            Text(f"{label}  {in_width(keys, room, self.canvas.ellipsis)}")
            for label, keys in zip(self.labels, self.keys, strict=True)
        ]

    def folded(self, text: str, style: str = "") -> list[Text]:
        return [Text(line, style=style) for line in fold(text, self.canvas.width)]

    def left_out(self, what: Sequence[str]) -> list[Text]:
        return self.note(f"no room for {' and '.join(what)}: | less -S") if what else []

    def note(self, text: str) -> list[Text]:
        return self.folded(text, self.canvas.faint)


def query_labels(tokens: Tokens, canvas: Canvas) -> list[str]:
    """The tokens with their numbers, all of one width."""
    shown = [visible(token) for token in tokens.shown]
    width = min(LABEL_WIDTH, max(cell_len(token) for token in shown))
    return [f"{place:>3} {to_width(token, width, canvas)}" for place, token in enumerate(shown)]


def about(
    record: AttentionRecord, layer: int, head: int, short: bool = False, summary: HeadSummary | None = None
) -> str:
    """The head in one line: its pattern, where its weight goes, its entropy. summary: the head's, where it is known."""
    if summary is None:
        summary = summarise(record.select([layer], [head]))[layer, head]
    label = summary.label.replace("_", " ")
    shares = "  ".join(f"{name.replace('_', ' ')} {share:.2f}" for name, share in summary.shares.items())
    most = math.log(max(possible_keys(record, layer), 1))
    entropy = f"entropy {summary.entropy:.2f} of at most {most:.2f} nats"
    return f"{label}, {entropy}" if short else f"{label}: {shares}; {entropy}"


def strongest_keys(names: Sequence[str], row: Floats, top_k: int) -> list[tuple[str, str]]:
    """A query's strongest keys, by the names of all, and their weights; nothing where it may attend to nothing."""
    return [(names[key], f"{weight:.3f}") for key, weight in strongest(row, top_k)]


def in_width(keys: Sequence[tuple[str, str]], width: int | None = None, ellipsis: str = "") -> str:
    """Keys with their weights, as many as have room; the first always has, and is cut where it is too long."""
    if not keys:
        return NOTHING if width is None else cut(NOTHING, width, ellipsis)
    [(first, weight), *others] = keys
    shown = f"{first if width is None else cut(first, width - len(weight) - 1, ellipsis)} {weight}"
    for key, weight in others:
        if width is not None and cell_len(shown) + GAP + cell_len(f"{key} {weight}") > width:
            break
        shown += f"{' ' * GAP}{key} {weight}"
    return shown
