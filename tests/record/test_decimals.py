"""Numbers as text: short, and the same when they are read again."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attncli.record.parts import decimals

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=3), elements=FLOATS))
def test_every_number_reads_back_bit_by_bit(numbers):
    read = np.array(json.loads(decimals(numbers)), dtype=np.float64).astype(np.float32)
    assert np.array_equal(read.view(np.uint32), numbers.view(np.uint32))


def test_no_more_digits_than_it_takes():
    assert decimals(np.float32([[0.1, 1.0], [0.0, 1 / 3]])) == "[[0.1,1.0],[0.0,0.33333334]]"


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_json_has_not_is_an_error(number):
    with pytest.raises(ValueError, match="JSON"):
        decimals(np.float32([0.5, number]))
