"""Counting the differences of a layer."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.features.compare.agreement import difference, rows_with_numbers, same_strongest, worst


@given(numbers=st.lists(st.floats(allow_nan=True), min_size=1))
def test_the_worst_is_the_largest_and_nan_is_worse(numbers):
    found = worst(numbers)
    if any(number != number for number in numbers):
        assert found != found
    else:
        assert found == max(numbers)


def test_nan_on_both_sides_is_not_the_same_either():
    nan = torch.tensor([0.0, float("nan")])
    assert difference(nan, nan) != difference(nan, nan)
    infinite = torch.tensor([float("inf")])
    assert difference(infinite, infinite) != difference(infinite, infinite)


def test_keys_that_are_equally_strong_are_both_the_strongest():
    ours = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [1.0, 0.0, 0.0]])
    theirs = torch.tensor([[0.4999999, 0.5000001, 0.0], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])
    assert same_strongest(ours, theirs) == 2
    assert same_strongest(ours, torch.full_like(ours, float("nan"))) == 0


def test_rows_count_except_those_in_which_the_other_program_alone_gives_nan():
    nan = float("nan")
    weights, hidden = torch.zeros(2, 4, 4), torch.zeros(4, 3)
    mine, theirs = (weights.clone(), hidden.clone()), (weights.clone(), hidden.clone())
    theirs[0][1, 0, 2] = theirs[1][2, 1] = theirs[1][3, 1] = nan
    assert rows_with_numbers(mine, theirs) == [1]
    mine[0][0, 3, 0] = nan  # what is no number in ours is never left out
    assert rows_with_numbers(mine, theirs) == [1, 3]
