"""What is said of a cell that is held: its weight, its place in its row, what is usual there, how it changed."""

import numpy as np

from attncli.analysis.difference import Difference
from attncli.analysis.telling import Edge
from attncli.base.printable import visible
from attncli.record import AttentionRecord


def cell_lines(
    record: AttentionRecord, head: tuple[int, int], query: int, key: int, edge: Edge | None, found: Difference | None
) -> list[str]:
    """A line on the cell of a head, (layer, head); one on how it changed where there is a difference.

    edge: what is usual there, of a cell that is far above it.
    """
    row = record.map(*head)[query]
    allowed = record.mask_of(head[0])[query]
    names = visible(record.tokens.shown[query]), visible(record.keys.shown[key])
    said = f"{query} {names[0]} → {key} {names[1]}: {record.measure} {row[key]:.4f}"
    if not allowed[key]:
        said += ", hidden by the mask"
    else:
        rank = int((row > row[key]).sum()) + 1
        said += f", number {rank} of {int(allowed.sum())} keys (alike: {1 / max(int(allowed.sum()), 1):.4f})"
    if edge is not None:
        said += f"; usual {edge.usual:.2f}"
    if found is None:
        return [said]
    one, other = (float(side.map(*head)[query, key]) for side in (found.first, found.second))
    return [said, f"before {one:.4f}, now {other:.4f}: {other - one:+.4f}; of this head {found.of(*head):.3f} moved"]


def row_line(record: AttentionRecord, head: tuple[int, int], query: int) -> str:
    """What becomes of a query's weight, by its entropy."""
    row = record.map(*head)[query].astype(np.float64)
    entropy = float(-(row[row > 0] * np.log(row[row > 0])).sum())
    most = float(np.log(max(int(record.mask_of(head[0])[query].sum()), 1)))
    return f"{query} {visible(record.tokens.shown[query])}: entropy {abs(entropy):.2f} of at most {most:.2f} nats"
