"""Norms as shares of their rows, for whoever shows weights: a terminal, a page."""

from dataclasses import replace

import numpy as np

from attncli.record import AttentionRecord


def row_shares(record: AttentionRecord) -> AttentionRecord:
    """A record of norms with every row divided by its sum; any other record as it is.

    Norms have no upper limit and rows of them no common sum. Colours and shades of weights, patterns and entropies
    need both. A row of zeros stays one.
    """
    if record.measure != "norm":
        return record
    sums = record.weights.sum(axis=-1, keepdims=True)
    shares = np.divide(record.weights, sums, out=np.zeros_like(record.weights), where=sums > 0)
    return replace(record, weights=shares, measure="share of norm")
