"""The sums of `stats` as one would write them in numpy, from whole maps: what `attncli.corpus` is held against."""

import numpy as np
import numpy.typing as npt

from attncli.analysis.distances import divergence_sums
from attncli.analysis.statistics import LINEAR, Sums, factors
from attncli.base.arrays import Doubles, Floats
from attncli.text.windows import Window


def plain_sums(
    window: Window, weights: Floats, allowed: npt.NDArray[np.bool_] | None = None, distances: bool = False
) -> Sums:
    """Of a text that is one window, over the queries of it that count, from its weights `[layer, head, query, key]`.

    allowed: bool `[query, key]`, what could be attended to; None for everything.
    """
    length, counted = len(window), slice(*window.counted)
    linear = factors(window, *window.counted).reshape(len(LINEAR), -1).T
    keys = np.full(window.queries, length) if allowed is None else allowed[counted].sum(axis=-1)
    limit = float(np.log(np.maximum(keys, 1)).sum())
    rows = weights[:, :, counted]
    divergence = divergence_sums(rows.reshape(-1, *rows.shape[2:])) if distances else None
    return Sums.of_text(window.queries, limit, np.stack([plain_figures(layer, linear) for layer in rows]), divergence)


def plain_figures(weights: Floats, linear: Floats) -> Doubles:
    """The sums over queries of `[head, query, key]`, `[head, figure]`; linear `[query x key, figure]` (`factors`)."""
    logs = np.log(np.maximum(weights, np.float32(1e-37)))
    entropy = -(weights * logs).sum(axis=(1, 2))
    strongest = weights.max(axis=-1).sum(axis=-1)
    rest = weights.reshape(len(weights), -1) @ linear
    return np.concatenate([entropy[:, None], strongest[:, None], rest], axis=1).astype(np.float64)
