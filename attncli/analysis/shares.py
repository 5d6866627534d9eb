"""Norms as shares of their rows, for whoever shows weights: a terminal, a page."""

from dataclasses import replace

import numpy as np

from attncli.record import AttentionRecord

NORMS = " (norm)"  # how the model's name ends in a record of norms (`attncli.models.norms`)


def row_shares(record: AttentionRecord) -> AttentionRecord:
    """A record of norms with every row divided by its sum, and a name that says so; any other record as it is.

    Norms have no upper limit and rows of them no common sum. Colours and shades of weights, patterns and entropies
    need both. A row of zeros stays one.
    """
    if not record.model.name.endswith(NORMS):
        return record
    sums = record.weights.sum(axis=-1, keepdims=True)
    shares = np.divide(record.weights, sums, out=np.zeros_like(record.weights), where=sums > 0)
    name = f"{record.model.name.removesuffix(NORMS)} (norm, shares of each row)"
    return replace(record, weights=shares, model=replace(record.model, name=name))
