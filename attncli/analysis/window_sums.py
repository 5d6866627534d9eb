"""The sums over the queries of a window, and how one would make them in numpy of whole maps.

It is what is added up where records are all that there is (`attncli.analysis.record_statistics`,
`attncli.corpus.record_sums`), and what `attncli.corpus.batch_sums` is held against.
"""

from typing import NamedTuple

import numpy as np

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import LINEAR, Sums, added, factors
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.text.windows import Window


class Part(NamedTuple):
    """The sums over the queries of a window, or of several windows of a text; see `Sums`."""

    windows: int
    queries: int
    limit: Doubles
    totals: Doubles
    divergence: Doubles | None
    alike: Doubles | None = None

    def of_text(self) -> Sums:
        """Those of the text that it is all of."""
        return Sums.of_text(self.queries, self.limit, self.totals, self.divergence, self.alike)

    def join(self, other: "Part") -> "Part":
        return Part(
            self.windows + other.windows,
            self.queries + other.queries,
            self.limit + other.limit,
            self.totals + other.totals,
            added(self.divergence, other.divergence),
            added(self.alike, other.alike),
        )


def plain_part(window: Window, weights: Floats, allowed: Bools | None = None, distances: bool = False) -> Part:
    """Over the queries of a window that count, from its weights `[layer, head, query, key]`.

    allowed: bool `[query, key]`, or one a layer, what could be attended to; None for everything.
    """
    counted = slice(*window.counted)
    linear = factors(window, *window.counted).reshape(len(LINEAR), -1).T
    rows = weights[:, :, counted]
    every = np.ones(rows.shape[2:], dtype=bool) if allowed is None else allowed[..., counted, :]
    seen = np.broadcast_to(every, (len(weights), *rows.shape[2:]))  # [layer, query, key]
    keys = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
    return Part(
        windows=1,
        queries=window.queries,
        limit=np.log(keys).sum(axis=(1, 2)),
        totals=np.stack([plain_figures(layer, linear) for layer in rows]),
        divergence=divergence_sums(rows.reshape(-1, *rows.shape[2:])) if distances else None,
        alike=(seen / keys).reshape(len(seen), -1) @ linear.astype(np.float64),
    )


def plain_figures(weights: Floats, linear: Floats) -> Doubles:
    """The sums over queries of `[head, query, key]`, `[head, figure]`; linear `[query x key, figure]` (`factors`)."""
    logs = np.log(np.maximum(weights, np.float32(1e-37)))
    entropy = -(weights * logs).sum(axis=(1, 2))
    strongest = weights.max(axis=-1).sum(axis=-1)
    rest = weights.reshape(len(weights), -1) @ linear
    return np.concatenate([entropy[:, None], strongest[:, None], rest], axis=1).astype(np.float64)
