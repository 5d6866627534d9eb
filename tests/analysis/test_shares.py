"""Norms as shares of their rows."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records

from attncli.analysis.patterns import row_shares


def norms_of(record, lengths):
    """The record as one of norms: every key's weight times its length."""
    return replace(record, weights=record.weights * lengths, measure="norm")


@given(attention_records(padding=1), st.floats(0.01, 100))
def test_rows_sum_to_1_in_the_proportions_of_the_norms(record, length):
    lengths = np.linspace(length, 2 * length, len(record.tokens), dtype=np.float32)
    norms = norms_of(record, lengths)
    shares = row_shares(norms)
    np.testing.assert_allclose(shares.weights.sum(axis=-1), 1, rtol=1e-5)
    again = shares.weights * norms.weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(again, norms.weights, rtol=1e-5, atol=1e-30)  # the smallest floats have fewer digits
    assert shares.measure == "share of norm" and row_shares(shares) is shares


@given(attention_records())
def test_a_row_of_nothing_stays_so_and_weights_are_left_alone(record):
    assert row_shares(record) is record
    nothing = norms_of(record, np.zeros(len(record.tokens), dtype=np.float32))
    assert (row_shares(nothing).weights == 0).all()
