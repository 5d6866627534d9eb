"""Sums of real texts are accepted, and impossible sums are refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records

from attncli.corpus import statistics as ranges
from attncli.corpus.statistics import record_sums
from attncli.corpus.sums import Sums


@st.composite
def sums_of_texts(draw) -> Sums:
    """Draw the sums of some texts of one model, with distances."""
    first = draw(attention_records())
    layers, heads = first.weights.shape[:2]
    total = Sums.nothing(layers, heads, divergence=True) + record_sums(first, distances=True)
    for record in draw(st.lists(attention_records(), max_size=3)):
        if record.weights.shape[:2] == (layers, heads):
            total += record_sums(record, distances=True)
    return total


@given(sums=sums_of_texts())
def test_sums_of_texts_are_in_range(sums):
    ranges.check_sums(sums)
    ranges.check_sums(Sums.nothing(*sums.totals.shape[:2], divergence=True))


@given(
    sums=sums_of_texts(),
    name=st.sampled_from(["totals", "means", "squares", "limit", "alike", "divergence"]),
    value=st.sampled_from([np.nan, np.inf, -np.inf, -5.0, 1e9]),
    data=st.data(),
)
def test_one_number_out_of_range_is_found(sums, name, value, data):
    array = np.array(getattr(sums, name))
    array[tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)] = value
    with pytest.raises(ValueError, match=r"not from 0 to|both ways"):
        ranges.check_sums(replace(sums, **{name: array}))


@pytest.mark.parametrize("counts", [{"texts": -1}, {"texts": 0}, {"queries": 0}, {"texts": 10**6}, {"queries": -3}])
@settings(max_examples=3)
@given(sums=sums_of_texts())
def test_counts_that_the_sums_are_not_of(counts, sums):
    with pytest.raises(ValueError):
        ranges.check_sums(replace(sums, **counts))
