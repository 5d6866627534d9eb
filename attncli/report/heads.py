"""The heads of a record in the terminal: all of them as glyphs, some as small maps, or one as a large map."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.edges import STRONG, Edge, Usual, clear_patterns, first_is_sink
from attncli.analysis.patterns import BROAD, GLYPHS, HeadSummary, counted_queries, most_attended, strongest, summarise
from attncli.base.arrays import Floats
from attncli.base.printable import visible
from attncli.record import AttentionRecord
from attncli.record.display import drawn_map, head_colour
from attncli.record.selection import numbered_names
from attncli.report.canvas import Canvas, cut, to_width
from attncli.report.terminal import (
    LINES,
    POOLED,
    VALUE_WIDTH,
    PanelSize,
    cell_text,
    column_numbers,
    fold,
    head_grid,
    in_rows,
    key_legend,
    layout_of,
    legends,
    panel_lines,
    picture,
    scale,
    token_labels,
    two_digits,
    unknown_note,
)

# --- glyphs ---------------------------------------------------------------------------------------------

ASCII_GLYPHS = GLYPHS | {"self": "o", "previous": "<", "next": ">", "first": "^", "separator": "s", "broad": "."}
PATTERN_COLOURS = {
    "self": "cyan", "previous": "green", "next": "yellow", "first": "magenta", "separator": "blue",
    "punctuation": "red", "same_word": "bright_cyan", "broad": "default",
}  # fmt: skip
MARK = "*"  # before a listed head
BARS = "▁▂▃▄▅▆▇█"
GLYPH_WIDTHS = (4, 3, 2)  # columns of a head; its glyph and its bar take two


def glyph_table(
    record: AttentionRecord, canvas: Canvas, lines: int | None = None, listed: Sequence[tuple[int, int]] = ()
) -> list[Text]:
    """Return a line per layer with a glyph per head, then the legend of the glyphs.

    A glyph is the pattern that takes most of the head's weight; the bar beside it is the head's entropy. lines: the
    lines that there is room for; where there are more layers, they stand beside each other (`head_grid`). listed: the
    heads that are marked.
    """
    summaries = summarise(record)
    below = glyph_legend({summary.label for summary in summaries.values()}, canvas, "listed below" if listed else "")
    room = None if lines is None else lines - len(below) - 1
    wide = layout_of(record.layers, len(record.heads), canvas.width, GLYPH_WIDTHS, room).cell
    cell = glyph_cell(record, summaries, canvas, listed, wide)
    return [*head_grid(record.layers, record.heads, cell, canvas, GLYPH_WIDTHS, room), *below]


def glyph_cell(
    record: AttentionRecord,
    summaries: Mapping[tuple[int, int], HeadSummary],
    canvas: Canvas,
    listed: Collection[tuple[int, int]],
    wide: int,
) -> Callable[[int, int], Text]:
    """Return a function that draws a head, given the places of its layer and itself: its glyph and its entropy.

    listed: the heads with a mark: before the glyph, or in place of the entropy if a head has only two columns.
    """
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    most = [math.log(max(possible_keys(record, layer), 2)) for layer in record.layers]

    def cell(row: int, place: int) -> Text:
        layer, head = record.layers[row], record.heads[place]
        if (layer, head) not in summaries:
            return Text()
        summary = summaries[layer, head]
        style = pattern_colour(summary.label, canvas)
        glyph, entropy = (glyphs[summary.label], style), (bar(summary.entropy / most[row], canvas), canvas.faint)
        mark = (MARK, canvas.strong)
        if (layer, head) not in listed:
            return Text.assemble(glyph, entropy)
        return Text.assemble(mark, glyph, entropy) if wide > 2 else Text.assemble(glyph, mark)

    return cell


def pattern_colour(label: str, canvas: Canvas) -> str:
    """Return the colour of a pattern's glyph: the terminal's own, or one that can be read on a light background."""
    if not canvas.colour:
        return ""
    on_light = canvas.light and label != BROAD
    return head_colour(list(PATTERN_COLOURS).index(label)) if on_light else PATTERN_COLOURS[label]


def glyph_legend(labels: set[str], canvas: Canvas, marked: str) -> list[Text]:
    """Return the meaning of the glyphs of these labels, of the bars, and of the mark; "" if there is none."""
    glyphs = GLYPHS if canvas.unicode else ASCII_GLYPHS
    meanings = "  ".join(f"{glyph} {label.replace('_', ' ')}" for label, glyph in glyphs.items() if label in labels)
    mark = f"  {MARK} {marked}" if marked else ""
    return _folded(f"{meanings}  entropy {bar(0, canvas)} low {bar(1, canvas)} high{mark}", canvas)


def possible_keys(record: AttentionRecord, layer: int) -> int:
    """Return the largest number of keys, without [PAD], that a query of this layer may attend to.

    The entropy of a head is at most the logarithm of it.
    """
    rows = record.mask_of(layer)[counted_queries(record, layer)]
    return int(rows[:, ~np.array(record.keys.padding)].sum(axis=1).max(initial=0))


def bar(share: float, canvas: Canvas) -> str:
    """Return a bar whose height is `share`, from 0 to 1; a digit where blocks can't be encoded."""
    steps = BARS if canvas.unicode else "0123456789"
    return steps[min(int(max(share, 0.0) * len(steps)), len(steps) - 1)]


# --- all heads, and those worth a closer look -----------------------------------------------------------

LEAST_NAMED, MOST_NAMED = 4, 8  # listed heads with strong edges; layers are drawn side by side to make room for 4
EDGES = 4  # edges of a head, or patterns, that are named
WIDE, LIST_WIDTH = 160, 96  # from this width on a map is drawn beside the list; the width of the list then
PROMPT = 2  # lines of a terminal: an empty one, and the prompt


def first_look(
    record: AttentionRecord, found: Sequence[Sequence[Edge]], over: Usual, canvas: Canvas, command: str | None
) -> list[Text]:
    """Return all heads as glyphs, then those with edges far above their usual weight, in the lines of the canvas.

    A terminal of WIDE columns has the first head's map beside them.

    found: the edges, as `attncli.analysis.edges.edges` returns them. over: the texts of the usual weights. command:
    what to type next.
    """
    wide = canvas.height is not None and canvas.width >= WIDE and bool(found)
    part = replace(canvas, width=LIST_WIDTH) if wide else canvas
    named = [f"{layer}.{head} {pattern} {share:.2f}" for layer, head, pattern, share in clear_patterns(record)[:EDGES]]
    clear = _folded(f"clear patterns (share of weight):  {'  '.join(named)}", part) if named else []
    rest = [*(clear if part.height is None else clear[:1]), *_how_chosen(record, over, part)]
    next_line = "" if command is None else f"Next: {command}"
    available, most = None, MOST_NAMED
    if part.height is not None:
        room = part.height - len(rest) - len(_count_line(record, found, MOST_NAMED, part)) - PROMPT
        room -= -(-cell_len(next_line) // canvas.width)
        available = room - min(LEAST_NAMED, len(found))
        room -= len(glyph_table(record, part, available, _heads_of(found[:MOST_NAMED])))
        most = min(max(room, 1), MOST_NAMED)
    heads = found[:most]
    lines = [
        *glyph_table(record, part, available, _heads_of(heads)),
        Text(),
        *_count_line(record, found, len(heads), part),
        *edge_lines(record, heads, part),
        *rest,
    ]
    if wide:
        beside = _map_beside(record, heads[0][0], canvas)
        lines += [Text() for _ in beside[len(lines) :]]
        for place, other in enumerate(beside):
            if other.cell_len:
                gap = " " * (LIST_WIDTH + GAP - lines[place].cell_len)
                lines[place] = Text.assemble(lines[place], gap, other)  # neither has the other's style
    if next_line:  # the terminal folds it, so that it can be pasted
        lines.append(Text(next_line, canvas.faint, no_wrap=True, overflow="ignore"))
    return lines


def _map_beside(record: AttentionRecord, edge: Edge, canvas: Canvas) -> list[Text]:
    """Return the map of an edge's head under its name, with a row per query, or pooled where it has more rows."""
    layer, head = edge.layer, edge.head
    room = replace(canvas, width=canvas.width - LIST_WIDTH - GAP)
    name = f"head {layer}.{head}: weights, queries down and keys across"
    view = _HeadView.of(record, layer, head, room, 1)
    fitting = [cell for cell in CELL_WIDTHS if view.room(cell) >= -GAP]
    lines = (canvas.height or 0) - BELOW - 2
    if fitting and len(record.tokens) < lines:
        return [Text(name, canvas.strong), *view.map(fitting[0], beside=False)]
    size = PanelSize.of(len(record.keys), room.width, min(LINES, lines))
    pooled = [Text(POOLED, canvas.faint)] if size.pools(record, canvas) else []
    return [*panel_lines(name, view.weights, size, canvas, canvas.strong, record.rows), *pooled]


def _heads_of(found: Sequence[Sequence[Edge]]) -> list[tuple[int, int]]:
    """Return the heads of these edges."""
    return [(edges[0].layer, edges[0].head) for edges in found]


def _count_line(record: AttentionRecord, found: Sequence[Sequence[Edge]], listed: int, canvas: Canvas) -> list[Text]:
    """Say how many heads have strong edges, and how many of these are listed."""
    every = len(record.each_head)
    have = "have" if len(found) > 1 else "has"
    line = f"{len(found) or 'none'} of {every} heads {have} word-to-word edges far above the usual weight"
    if found:
        line += f". The first {listed}:" if listed < len(found) else ":"
    return _folded(line, canvas, canvas.strong)


def edge_lines(record: AttentionRecord, heads: Sequence[Sequence[Edge]], canvas: Canvas) -> list[Text]:
    """Return a line per head: its edges with their weights, and their usual weights in brackets, as many as fit."""
    queries, keys = numbered_names(record.tokens), numbered_names(record.keys)
    arrow = "→" if canvas.unicode else "->"
    lines = []
    for edges in heads:
        line = f"{f'{edges[0].layer}.{edges[0].head}':>5}"
        for edge in edges[:EDGES]:
            shown = f"  {queries[edge.query]} {arrow} {keys[edge.key]} {edge.weight:.2f} ({edge.usual:.2f})"
            if edge is not edges[0] and cell_len(line + shown) > canvas.width:
                break
            line += shown
        lines.append(Text(line))
    return lines


def _how_chosen(record: AttentionRecord, over: Usual, canvas: Canvas) -> list[Text]:
    """Say which edges are listed, and which token is no word."""
    others = over.texts - 1
    here = "this text" if record.rows is None else "these rows"
    where = f"{here} and {others} sample texts" if others else here
    text = (
        f"(In brackets: the usual weight. It is the mean weight from other words to the same key, or the head's mean "
        f"at the same distance over {where}, if that is larger. Listed: edges at least {STRONG} above it.)"
    )
    return [*_folded(text, canvas, canvas.faint), *sink_note(record, canvas)]


def sink_note(record: AttentionRecord, canvas: Canvas) -> list[Text]:
    """Say that the first token is a sink, if it is one and is not special; otherwise nothing."""
    if not first_is_sink(record):
        return []
    name = numbered_names(record.keys)[record.keys.first]
    text = f'(The first token, "{name}", is a sink: every later token sees it. So it does not count as a word.)'
    return _folded(text, canvas, canvas.faint)


def _folded(text: str, canvas: Canvas, style: str = "") -> list[Text]:
    return [Text(line, style) for line in fold(text, canvas.width)]


# --- small maps -----------------------------------------------------------------------------------------


def small_maps(record: AttentionRecord, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """Return the heads of every layer as small maps, several beside each other, each above its strongest keys."""
    summaries = summarise(record)
    size = PanelSize.of(len(record.keys), canvas.width)
    every = {(layer, head): drawn_map(record, layer, head) for layer, head in record.each_head}
    lines = [*legends(record, canvas), scale(canvas, *every.values())]
    if size.pools(record, canvas):
        lines.append(Text(POOLED))
    for layer in record.layers:
        lines += [Text(), *([Text(f"layer {layer}", canvas.strong)] if len(record.layers) > 1 else [])]
        panels = []
        for head in record.heads_of(layer):
            summary = summaries[layer, head]
            share = "" if summary.label == BROAD else f" {two_digits(summary.strength)}"
            caption = f"head {head}  {summary.label.replace('_', ' ')}{share}"
            drawn = panel_lines(caption, every[layer, head], size, canvas, canvas.strong, record.rows)
            below = to_width(_most_keys(record, layer, head, top_k, size.width), size.width, canvas)
            panels.append([*drawn, Text(below, style=canvas.faint)])
        lines += in_rows(panels, size.width, canvas)
    return lines


def _most_keys(record: AttentionRecord, layer: int, head: int, top_k: int, width: int) -> str:
    """Return the keys that get most of a head's weight, as many as fit; at least one, however long."""
    shown, names = "", numbered_names(record.keys)
    for key, weight in most_attended(record, layer, head, top_k):
        entry = f"{names[key]} {two_digits(weight)}"
        if shown and cell_len(shown) + 2 + cell_len(entry) > width:
            break
        shown += f"  {entry}" if shown else entry
    return shown


# --- one large map --------------------------------------------------------------------------------------

CELL_WIDTHS = (VALUE_WIDTH, 2, 1)  # the widest that fits is used
LEAST_KEYS = 12  # columns for a strongest key, at least
GAP = 2  # columns before strongest keys
NOTHING = "(may attend to nothing)"
BELOW = 3  # lines of a terminal for what comes after: an empty one, what to type next, and the prompt


def one_head(record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int = 3) -> list[Text]:
    """Return one head as the fullest view for which the canvas has room: a row per query, with its strongest keys.

    Cells have their numbers where the width allows it, else only their colour or shade; a text too long even for that
    is drawn as a picture. The strongest keys are beside the map if there is room, else below it. If the view is taller
    than the terminal, the cells become smaller until the keys fit beside them, or the keys are left out. A line says
    so.
    """
    view = _HeadView.of(record, layer, head, canvas, top_k)
    if canvas.height is None:
        return next(view.views())
    room = canvas.height - BELOW
    views = list(view.views())
    smallest = [
        *min(views, key=len),
        *view.note("taller than the terminal: try less -S, or --words for fewer rows"),
    ]
    return next((one for one in views if len(one) <= room), smallest)


@dataclass(frozen=True)
class _HeadView:
    """A head's map, a label per query, and its strongest keys with their weights."""

    record: AttentionRecord
    layer: int
    head: int
    canvas: Canvas
    weights: Floats
    labels: Sequence[str]
    keys: Sequence[Sequence[tuple[str, str]]]

    @classmethod
    def of(cls, record: AttentionRecord, layer: int, head: int, canvas: Canvas, top_k: int) -> "_HeadView":
        weights = drawn_map(record, layer, head)
        names = numbered_names(record.keys)
        keys = [strongest_keys(names, row, top_k) for row in weights]
        return cls(record, layer, head, canvas, weights, token_labels(record.tokens, canvas, record.rows), keys)

    @property
    def left(self) -> int:
        """Columns before the map."""
        return cell_len(self.labels[0]) + 1

    def room(self, cell: int) -> int:
        """Return the columns for keys beside a map whose cells have `cell` columns."""
        return self.canvas.width - self.left - len(self.record.keys) * cell - GAP

    def views(self) -> Iterator[list[Text]]:
        """Yield views from the fullest to the smallest."""
        longest = max(cell_len(keys_within(keys)) for keys in self.keys)
        cells = [cell for cell in CELL_WIDTHS if self.room(cell) >= -GAP] or [0]
        all_keys = [cell for cell in cells if cell and self.room(cell) >= longest]
        some_keys = [cell for cell in cells if cell and self.room(cell) >= LEAST_KEYS]
        full = self.map(cells[0], beside=cells[0] in all_keys)
        if cells[0] not in all_keys:
            room = max(self.canvas.width - self.left - 1, LEAST_KEYS)
            below = (keys_within(keys, room, self.canvas.ellipsis) for keys in self.keys)
            full += [Text(), *(Text(f"{label}  {keys}") for label, keys in zip(self.labels, below, strict=True))]
        yield [*self.above(), Text(), *full]
        for cell in dict.fromkeys([*all_keys[:1], *some_keys[:1]]):
            gone = ["the numbers in the cells"] if cell < cells[0] == VALUE_WIDTH else []
            if cell not in all_keys:
                gone.append("all strongest keys")
            small = [*self.map(cell, beside=True), *self.left_out(gone)]
            yield [*self.above(), Text(), *small]
            yield [*self.above(), *small]
            yield [*self.above(short=True), *small]
        alone = self.map(cells[0], beside=False)
        yield [*self.above(), *alone, *self.left_out(["strongest keys"])]

    def above(self, short: bool = False) -> list[Text]:
        """Return the head's pattern, and the meaning of the colours."""
        return [
            *_folded(describe_head(self.record, self.layer, self.head, short), self.canvas),
            *([] if self.record.key_tokens else unknown_note(self.record.tokens, self.canvas)),
            scale(self.canvas, self.weights),
        ]

    def map(self, cell: int, beside: bool) -> list[Text]:
        """Return a row per query, with cells of `cell` columns; a picture where it is 0. beside: with its keys."""
        lines = self.above_columns(cell)
        if cell == 0:
            length = min(len(self.record.keys), self.canvas.width)
            taken = BELOW + len(self.above()) + 1 + len(lines)
            most = LINES if self.canvas.height is None else max(1, self.canvas.height - taken)
            return [*lines, *picture(self.weights, self.canvas, length, min(LINES, most))]
        for label, row, keys in zip(self.labels, self.weights.tolist(), self.keys, strict=True):
            line = Text(label + " ")
            for weight in row:
                line.append(*cell_text(weight, cell, self.canvas))
            named = keys_within(keys, self.room(cell), self.canvas.ellipsis) if beside else ""
            lines.append(line.append(" " * GAP + named if beside else ""))
        return lines

    def above_columns(self, cell: int) -> list[Text]:
        """Return the keys, if each is one character with room above its column, else their numbers."""
        tokens = self.record.keys
        ordinary = [token for token, special in zip(tokens.shown, tokens.special, strict=True) if not special]
        if ordinary and all(len(token) == 1 and cell_len(visible(token)) <= cell for token in ordinary):
            room = max(2, cell - 1)  # columns of a special token, which is cut
            keys = [cut(visible(token), min(room, cell), self.canvas.ellipsis) for token in tokens.shown]
            names = "".join(" " * (cell - cell_len(key)) + key for key in keys)
            return [Text(" " * self.left + names, style=self.canvas.faint)]
        legend = key_legend(self.record, self.canvas)
        if cell == 0:
            return legend
        numbers = column_numbers(range(len(tokens)), cell)
        return [*legend, Text(" " * self.left + numbers, style=self.canvas.faint)]

    def left_out(self, names: Sequence[str]) -> list[Text]:
        return self.note(f"no room for {' and '.join(names)}: try less -S") if names else []

    def note(self, text: str) -> list[Text]:
        return _folded(text, self.canvas, self.canvas.faint)


def describe_head(
    record: AttentionRecord, layer: int, head: int, short: bool = False, summary: HeadSummary | None = None
) -> str:
    """Describe a head in one line: its pattern, the shares of its weight, its measured kinds, its entropy.

    summary: where it is known.
    A cross-attention has no shares here: its queries and keys are of two texts.
    """
    if summary is None:
        summary = summarise(record.select([layer], [head]))[layer, head]
    label = summary.label.replace("_", " ")
    shares = "  ".join(f"{name.replace('_', ' ')} {share:.2f}" for name, share in summary.shares.items())
    most = math.log(max(possible_keys(record, layer), 1))
    known = record.kinds
    names = known.heads.get((layer, head)) if known is not None else None
    kinds = f"{', '.join(names)} ({known.origin}); " if known is not None and names else ""
    entropy = f"{kinds}entropy {summary.entropy:.2f} of at most {most:.2f} nats"
    if record.kind == "cross" and summary.label == BROAD:  # without shares, "broad" would seem to describe the entropy
        return entropy
    return f"{label}, {entropy}" if short or record.kind == "cross" else f"{label}: {shares}; {entropy}"


def strongest_keys(names: Sequence[str], row: Floats, top_k: int) -> list[tuple[str, str]]:
    """Return a query's strongest keys with their weights; none where it may attend to nothing."""
    return [(names[key], f"{weight:.3f}") for key, weight in strongest(row, top_k)]


def keys_within(keys: Sequence[tuple[str, str]], width: int | None = None, ellipsis: str = "") -> str:
    """Return keys with their weights, as many as fit; the first always does, and is cut where it is too long."""
    if not keys:
        return NOTHING if width is None else cut(NOTHING, width, ellipsis)
    [(first, weight), *others] = keys
    shown = f"{first if width is None else cut(first, width - len(weight) - 1, ellipsis)} {weight}"
    for key, weight in others:
        if width is not None and cell_len(shown) + GAP + cell_len(f"{key} {weight}") > width:
            break
        shown += f"{' ' * GAP}{key} {weight}"
    return shown
