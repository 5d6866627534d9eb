"""The terms of a head's scores as maps: scaled q·k, and the terms of positions."""

import numpy as np

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError
from attncli.base.printable import printable
from attncli.record import AttentionRecord

SCORE = "score"  # the sum


def score_terms(record: AttentionRecord) -> dict[str, Doubles]:
    """Return, for the one head of a record, its score and the terms of it by name, `[query, key]` each.

    "content" is scale q·k; the others are what positions add. Hidden keys are NaN.

    Raises RequestError as `with_terms` does.
    """
    [layer], [head] = with_terms(record).layers, record.heads
    assert record.vectors is not None
    parts = record.vectors.parts(layer, head)
    hidden = ~record.mask_of(layer)
    return {
        part: np.where(hidden, np.nan, numbers)
        for part, numbers in {SCORE: np.sum(list(parts.values()), axis=0), **parts}.items()
    }


def with_terms(record: AttentionRecord) -> AttentionRecord:
    """Return the record. Raises RequestError for several heads, no queries and keys, or no terms."""
    if len(record.layers) > 1 or len(record.heads) > 1:
        raise RequestError("--terms is of one head: choose it with -l and -H")
    [layer], [head] = record.layers, record.heads
    name = printable(record.model.name)
    if record.vectors is None or record.measure != "weight":
        raise RequestError(
            f"no q and k of head {layer}.{head} of {name} are there, which make its scores: save them with "
            f"attncli run -l all --vectors {layer}.{head} -o maps.safetensors TEXT"
        )
    if not record.vectors.terms:
        raise RequestError(
            f"the scores of head {layer}.{head} of {name} are q·k, scaled, and positions add no term to them: leave "
            "--terms out (attncli explain has what they are made of)"
        )
    return record
