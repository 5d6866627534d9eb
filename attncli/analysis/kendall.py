"""Kendall's tau: how far two numberings rank things alike."""

import numpy as np

from attncli.base.arrays import Doubles


def tau(one: Doubles, others: Doubles) -> Doubles:
    """tau-b of one list of numbers with each of some, `[thing]` and `[list, thing]` -> `[list]`. NaN where one
    ranks nothing.

    (pairs that both rank alike - pairs that they rank contrary) / √(pairs that one ranks · pairs that the other ranks):
    1 the same order, -1 the reverse (Kendall 1945, "The Treatment of Ties in Ranking Problems").
    """
    first, second = np.triu_indices(len(one), k=1)
    ours = np.sign(one[first] - one[second])
    theirs = np.sign(others[:, first] - others[:, second])
    ranked = np.sqrt(np.count_nonzero(ours) * np.count_nonzero(theirs, axis=1).astype(np.float64))
    found: Doubles = np.divide(theirs @ ours, ranked, out=np.full(len(others), np.nan), where=ranked > 0)
    return found
