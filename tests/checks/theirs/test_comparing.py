"""How far an answer is, and what rounding explains."""

import math

import pytest
import torch

from attncli.attention.mistakes import RIGHT, Inputs, Linear, Projections, Seen, changed
from attncli.attention.mistakes.steps import join_by_view, keep_scores
from attncli.checks.theirs.comparing import as_dtype, difference, explained, tolerance

NAN, INF = math.nan, math.inf


def tensor(*numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def inputs(size: float = 1.0, of_values: float = 1.0) -> Inputs:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, generator=random, dtype=torch.float64) for _ in range(3))
    return Inputs(size * query, size * key, of_values * value, 3)


@pytest.mark.parametrize(
    "theirs, ours, gap",
    [
        (tensor(1, 2), tensor(1, 2.5), 0.5),
        (tensor(1, NAN), tensor(1, NAN), 0),
        (tensor(INF, -INF), tensor(INF, -INF), 0),
        (tensor(1, NAN), tensor(1, 2), INF),
        (tensor(1, 2), tensor(1, NAN), INF),
        (tensor(INF), tensor(-INF), INF),
        (tensor(1), tensor(INF), INF),
        (tensor(), tensor(), 0),
        (torch.tensor([1], dtype=torch.float16), tensor(1.5), 0.5),
    ],
)
def test_the_largest_difference(theirs, ours, gap):
    assert difference(theirs, ours) == gap


def test_nan_is_allowed_where_nothing_may_be_seen_and_nowhere_else():
    ours = torch.zeros(1, 2, 3, 4)
    nowhere = torch.zeros(1, 2, 3, dtype=torch.bool)
    nowhere[0, 1, 2] = True
    theirs = ours.clone()
    theirs[0, 1, 2] = NAN
    assert difference(theirs, ours, nowhere) == 0 and difference(theirs, ours) == INF
    theirs[0, 1, 2] = 1  # is neither
    assert difference(theirs, ours, nowhere) == 1
    theirs[0, 0, 0, 0] = NAN
    assert difference(theirs, ours, nowhere) == INF
    joined = torch.zeros(1, 3, 8)
    joined[0, 2] = NAN  # W_O adds up all heads
    assert difference(joined, torch.zeros(1, 3, 8), nowhere) == 0


@pytest.mark.parametrize(
    "dtype, least, most", [("float64", 1e-12, 1e-9), ("float32", 1e-6, 1e-4), ("float16", 1e-3, 0.1)]
)
def test_rounding_explains_little(dtype, least, most):
    given = inputs()
    within = tolerance(RIGHT(given), given, dtype)
    rounded = RIGHT(as_dtype(given, getattr(torch, dtype)))
    assert least < within < most and difference(rounded.output, RIGHT(given).output) <= within


def test_it_explains_more_of_large_numbers():
    small, large = inputs(), inputs(of_values=1000)
    assert tolerance(RIGHT(large), large, "float32") > 100 * tolerance(RIGHT(small), small, "float32")
    large = inputs(size=30)
    assert tolerance(RIGHT(large), large, "float32") > 10 * tolerance(RIGHT(small), small, "float32")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_no_mistake_is_rounding(dtype):
    given = inputs()
    wrong = changed(RIGHT, {"scale": keep_scores})(as_dtype(given, getattr(torch, dtype))).output
    assert difference(wrong, RIGHT(given).output) > 3 * tolerance(RIGHT(given), given, dtype)


def answered(formula, given):
    output = formula(given).output
    return lambda shape: output if not shape or output.shape == shape else None


def test_what_the_formula_gives_is_explained_by_it_and_by_no_other():
    given, wrong = inputs(), changed(RIGHT, {"scale": keep_scores})
    for one in (RIGHT, wrong):
        for other in (RIGHT, wrong):
            assert explained(one, given, answered(other, given), "float64", 1e-9) == (one is other)


def test_in_half_precision_it_is_compared_with_the_formula_in_it():
    given = inputs(size=3)
    half = as_dtype(given, torch.float16)
    gap = difference(RIGHT(half).output, RIGHT(given).output)
    assert explained(RIGHT, given, answered(RIGHT, half), "float16", gap / 1000)
    assert not explained(RIGHT, given, answered(RIGHT, half), "float64", gap / 1000)


def test_what_cannot_be_computed_is_explained_by_no_answer():
    x = torch.randn(1, 3, 4)
    square = Linear(torch.randn(4, 4))
    given = Inputs(x, x, x, 2, Projections(square, Linear(torch.randn(4, 5)), square, square))
    assert explained(RIGHT, given, lambda shape: None, "float64", 1e-9)
    assert not explained(RIGHT, given, lambda shape: x, "float64", 1e-9)


def test_no_answer_is_not_explained_by_what_can_be_computed():
    assert not explained(RIGHT, inputs(), lambda shape: None, "float64", 1e9)


def test_a_row_of_nan_is_explained_where_nothing_may_be_seen():
    given = inputs()._replace(seen=Seen(pairs=torch.tensor([False, True, True, True, True])[:, None].expand(5, 5)))
    output = RIGHT(given).output
    output[:, :, 0] = NAN
    assert explained(RIGHT, given, lambda shape: output, "float64", 1e-9)
    assert not explained(changed(RIGHT, {"join": join_by_view}), inputs(), lambda shape: output, "float64", 1e-9)


def test_another_precision_of_everything():
    linear = Linear(torch.randn(4, 4), torch.randn(4))
    given = as_dtype(
        inputs()._replace(projections=Projections(linear, linear, Linear(linear.weight), None)), torch.float16
    )
    by = given.projections
    assert {x.dtype for x in (given.query, given.key, given.value, by.query.weight, by.query.bias)} == {torch.float16}
    assert by.value.bias is None and by.output is None
