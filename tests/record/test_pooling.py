"""Maps with fewer cells: no peak is lost, and a map that is small enough stays as it is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attncli.record.display import pool


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30), st.integers(1, 30))
def test_pooling_keeps_the_largest(rows, columns, most_rows, most_columns):
    weights = np.random.default_rng(0).random((rows, columns)).astype(np.float32)
    small = pool(weights, most_rows, most_columns)
    assert small.shape == (min(rows, most_rows), min(columns, most_columns))
    assert small.max() == weights.max()
    if small.shape == weights.shape:
        assert np.array_equal(small, weights)
