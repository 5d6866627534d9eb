"""A text that the model continues: the written tokens, their edges, and the earlier text that they replace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attncli.analysis.difference import Difference
from attncli.analysis.edges import Edge, written_tokens
from attncli.base.printable import printable, visible
from attncli.live.explorer.findings import ARROW
from attncli.live.explorer.window import mark
from attncli.record import AttentionRecord
from attncli.record.selection import numbered_names
from attncli.report.canvas import Canvas, cut

LABEL = 9  # columns of the name before a line of written tokens
LEAST = 6  # columns of a token in the findings, at least
AHEAD = 6  # tokens after the marked one that are on the line


@dataclass(frozen=True)
class WrittenFinding:
    """A token that the model wrote, and the edge that stands out in the row that predicted it.

    names: the token and the edge's key. chances: its probability, "45%"; in a comparison before and now. figures: the
    weight of the edge with its usual weight in brackets, or its change. layer, head, key: of the edge; None if no edge
    stands out. query: the row.
    """

    layer: int | None
    head: int | None
    names: tuple[str, str]
    chances: str
    figures: str
    query: int
    key: int | None

    identity: ClassVar[Sequence[str]] = ("query",)

    @property
    def selection(self) -> dict[str, Any]:
        """Return the row, with the edge's head and key if there is one, as fields of the screen's state."""
        head = {} if self.layer is None else {"layer": self.layer, "head": self.head}
        return {**head, "query": self.query, "key": self.key}

    def heading(self, width: int, ellipsis: str) -> str:
        """Return "trophy   45%  3.1 → fit 0.61 (0.12)" in at most `width` columns; names are cut before numbers."""
        token, key = self.names
        room = max(LEAST, width // 5)
        token = cut(token, room, ellipsis)
        start = f"{token}{' ' * (room - cell_len(token))} {self.chances}"
        if self.layer is None:
            return cut(start, width, ellipsis)
        start, end = f"{start}  {self.layer}.{self.head}{ARROW}", f" {self.figures}"
        return cut(f"{start}{cut(key, width - cell_len(start) - cell_len(end), ellipsis)}{end}", width, ellipsis)


def written_findings(
    record: AttentionRecord,
    found: Sequence[Sequence[Edge]],
    without: Sequence[tuple[int, int]],
    moved: Difference | None,
) -> list[WrittenFinding]:
    """Return the written tokens, each with its edge farthest above its usual weight, or the largest change in its row.

    found: the strong edges of each head. moved: the difference from the comparison, if any. without: silenced heads,
    whose changes are not listed.
    """
    keys = numbered_names(record.keys)
    before = {} if moved is None else {one.place: one.probability for one in written_tokens(moved.first, [])}
    changes = None
    if moved is not None:  # [layer, head, query, key]; those of silenced heads are 0
        changes = np.nan_to_num(moved.second.weights.astype("float64") - moved.first.weights)
        for silenced in without:
            changes[moved.second.layers.index(silenced[0]), moved.second.heads.index(silenced[1])] = 0
    findings = []
    for token in written_tokens(record, found):
        name, chance = visible(record.tokens.shown[token.place]), percent(token.probability)
        layer = head = key = None
        figures = ""
        if changes is not None:
            chance = f"{percent(before[token.place]):>4}{ARROW}{chance:>4}"
            row = changes[:, :, token.query]
            place, number, key = (int(one) for one in np.unravel_index(np.abs(row).argmax(), row.shape))
            layer, head, figures = record.layers[place], record.heads[number], f"{row[place, number, key]:+.2f}"
        elif token.edges:
            edge = token.edges[0]
            layer, head, key, figures = edge.layer, edge.head, edge.key, f"{edge.weight:.2f} ({edge.usual:.2f})"
        edge_name = "" if key is None else keys[key]
        findings.append(WrittenFinding(layer, head, (name, edge_name), f"{chance:>4}", figures, token.query, key))
    return findings


def percent(probability: float | None) -> str:
    """Format a probability as "4.5%" or "45%"; "-" if it is not among the most likely."""
    return "-" if probability is None else f"{100 * probability:.{1 if probability < 0.0995 else 0}f}%"


# --- lines


def next_lines(records: Sequence[AttentionRecord], query: int | None, canvas: Canvas) -> list[Text]:
    """Return the most likely tokens after a query's token, with the written one marked.

    A query that predicted no written token has no line.

    records: the record, and the one before a change, if any, which has its own line.
    """
    lines = []
    for name, record in zip(("next", "before"), records, strict=False):
        token = next((one for one in written_tokens(record, []) if one.query == query), None)
        if token is None:
            continue
        line = Text(f"{name}:".ljust(LABEL), no_wrap=True)
        for label, probability in token.likely.items():
            chosen = label == record.tokens.shown[token.place]
            line.append(f"{visible(label)} {percent(probability)}", mark(canvas) if chosen else "")
            line.append("  ")
        lines.append(line)
    return lines


def first_shown(tokens: Sequence[str], marked: int, canvas: Canvas) -> int:
    """Return the number of the first token that a line shows, so that the marked token is on the line."""
    widths = [cell_len(printable(token)) for token in tokens]
    room = canvas.width - LABEL
    return next(first for first in range(len(tokens) + 1) if sum(widths[first : marked + AHEAD]) <= room)


def written_line(name: str, tokens: Sequence[str], first: int, canvas: Canvas, marked: int | None = None) -> Text:
    """Return a line of tokens from the first shown one on."""
    line = Text(f"{name}:".ljust(LABEL), no_wrap=True)
    for place, token in enumerate(tokens[first:], first):
        line.append(printable(token), mark(canvas) if place == marked else "")
    return line


def describe_rewriting(written: Sequence[str], earlier: Sequence[str], same: int) -> str:
    """Describe where the written tokens first differ from the earlier ones. same: the number of equal tokens before."""
    if same == min(len(written), len(earlier)):
        return f"the same {same} tokens as before"
    return f"token {same + 1} differs: {visible(written[same])}, before {visible(earlier[same])}"


def count_shared(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return how many tokens two texts share at their beginning."""
    pairs = enumerate(zip(ids, others, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(ids), len(others)))
