"""Findings: the heads of a record that stand out, and why; or the heads that changed, with their largest change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.cells import cell_len

from attncli.analysis.difference import Difference
from attncli.analysis.edges import Edge, clear_patterns
from attncli.record import AttentionRecord
from attncli.record.selection import numbered_names
from attncli.report.canvas import cut

PATTERNS = 4  # heads with a clear pattern, at most
UNCHANGED = 0.0005  # weight moved: a head with less is listed only if no head has more
ARROW = " → "


@dataclass(frozen=True)
class HeadFinding:
    """A head that stands out.

    names: the tokens of the cell that shows it, or its pattern. figures: the numbers of that cell. query, key: the
    cell; None for a pattern, which is that of the whole map.
    """

    layer: int
    head: int
    names: tuple[str, ...]
    figures: str
    query: int | None = None
    key: int | None = None

    identity: ClassVar[Sequence[str]] = ("layer", "head")  # the fields of the screen's state that select it

    @property
    def selection(self) -> dict[str, Any]:
        """Return the head and its cell as fields of the screen's state."""
        return {"layer": self.layer, "head": self.head, "query": self.query, "key": self.key}

    def heading(self, width: int, ellipsis: str) -> str:
        """Return "3.1 it → trophy 0.61, usual 0.12" in at most `width` columns; names are cut before numbers."""
        start, end = f"{f'{self.layer}.{self.head}':>5} ", f" {self.figures}"
        room = width - cell_len(start) - cell_len(end)
        what = cut(self.names[-1], room, ellipsis)
        if len(self.names) > 1:
            query, key = self.names
            room -= cell_len(ARROW)
            query = cut(query, max(room // 2, room - cell_len(key)), ellipsis)
            what = f"{query}{ARROW}{cut(key, room - cell_len(query), ellipsis)}"
        return cut(f"{start}{what}{end}", width, ellipsis)


def record_findings(record: AttentionRecord, found: Sequence[Sequence[Edge]]) -> list[HeadFinding]:
    """Return the heads with strong edges in their order, each with its first edge, then those with a clear pattern."""
    queries, keys = numbered_names(record.tokens), numbered_names(record.keys)
    findings = [
        HeadFinding(
            edge.layer,
            edge.head,
            (queries[edge.query], keys[edge.key]),
            f"{edge.weight:.2f}, usual {edge.usual:.2f}",
            edge.query,
            edge.key,
        )
        for edge in (edges[0] for edges in found)
    ]
    named = {(one.layer, one.head) for one in findings}
    clear = [one for one in clear_patterns(record) if one[:2] not in named]
    return [
        *findings,
        *(
            HeadFinding(
                layer, head, (pattern if pattern == "self" else f"{pattern} token",), f"{share:.2f} of the weight"
            )
            for layer, head, pattern, share in clear[:PATTERNS]
        ),
    ]


def change_findings(difference: Difference, without: Sequence[tuple[int, int]]) -> list[HeadFinding]:
    """Return the heads whose maps changed, the most changed first, each with its largest change.

    without: silenced heads, which are not listed.
    """
    record = difference.second
    queries, keys = numbered_names(record.tokens), numbered_names(record.keys)
    findings: list[HeadFinding] = []
    for layer, head in difference.heads():
        moved = difference.of(layer, head)
        if (layer, head) in without or moved == 0:
            continue
        if moved < UNCHANGED and findings:
            break
        first, second = (one.map(layer, head).astype("float64") for one in (difference.first, difference.second))
        change = np.nan_to_num(second - first)
        query, key = (int(place) for place in np.unravel_index(np.abs(change).argmax(), change.shape))
        figures = f"{change[query, key]:+.2f}, moved {moved:.2f}"
        findings.append(HeadFinding(layer, head, (queries[query], keys[key]), figures, query, key))
    return findings
