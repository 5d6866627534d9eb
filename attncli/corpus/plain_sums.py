"""The sums of `stats` as one would write them in numpy, from the whole maps of a window: what is added up where records
are all that there is (`attncli.corpus.record_sums`), and what `attncli.corpus.batch_sums` is held against.
"""

import numpy as np

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import LINEAR, factors
from attncli.base.arrays import Bools, Doubles, Floats
from attncli.corpus.sums import Part
from attncli.text.windows import Window


def plain_part(window: Window, weights: Floats, allowed: Bools | None = None, distances: bool = False) -> Part:
    """Over the queries of a window that count, from its weights `[layer, head, query, key]`.

    allowed: bool `[query, key]`, or one a layer, what could be attended to; None for everything.
    """
    counted = slice(*window.counted)
    linear = factors(window, *window.counted).reshape(len(LINEAR), -1).T
    keys = np.full(window.queries, len(window)) if allowed is None else allowed[..., counted, :].sum(axis=-1)
    limit = np.log(np.maximum(keys, 1)).sum(axis=-1)
    rows = weights[:, :, counted]
    return Part(
        windows=1,
        queries=window.queries,
        limit=np.broadcast_to(limit, len(weights)),
        totals=np.stack([plain_figures(layer, linear) for layer in rows]),
        divergence=divergence_sums(rows.reshape(-1, *rows.shape[2:])) if distances else None,
    )


def plain_figures(weights: Floats, linear: Floats) -> Doubles:
    """The sums over queries of `[head, query, key]`, `[head, figure]`; linear `[query x key, figure]` (`factors`)."""
    logs = np.log(np.maximum(weights, np.float32(1e-37)))
    entropy = -(weights * logs).sum(axis=(1, 2))
    strongest = weights.max(axis=-1).sum(axis=-1)
    rest = weights.reshape(len(weights), -1) @ linear
    return np.concatenate([entropy[:, None], strongest[:, None], rest], axis=1).astype(np.float64)
