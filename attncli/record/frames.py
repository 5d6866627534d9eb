"""A record as a table of pandas, which is no dependency: who has it uses it."""

from typing import TYPE_CHECKING

import numpy as np

from attncli.base.errors import RequestError
from attncli.record.files import CSV_HEADER

if TYPE_CHECKING:
    from pandas import DataFrame

    from attncli.record.record import AttentionRecord


def to_dataframe(record: "AttentionRecord") -> "DataFrame":
    """A row a cell, in the order and with the columns of the record's .csv (CSV_HEADER).

    Raises RequestError where pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise RequestError("a DataFrame needs pandas, which is not installed: pip install pandas") from error
    places = np.indices(record.weights.shape).reshape(record.weights.ndim, -1)  # [layer, head, query, key] of each cell
    layer, head, query, key = places
    queries, keys = (np.array(tokens.text, dtype=object) for tokens in (record.tokens, record.keys))
    columns = (
        np.zeros_like(layer),
        np.array(record.layers)[layer],
        np.array(record.heads)[head],
        query,
        key,
        queries[query],
        keys[key],
        record.weights.ravel(),
        ~np.broadcast_to(record.masks[:, None], record.weights.shape).ravel(),
    )
    return pandas.DataFrame(dict(zip(CSV_HEADER, columns, strict=True)))
