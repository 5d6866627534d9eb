"""Mistakes are put into the formula, one after the other, and never two in one step."""

import pytest
import torch

from attncli.attention.mistakes import MISTAKES, RIGHT, Affine, Inputs, Projections, change_steps, with_mistakes
from attncli.attention.mistakes.steps import keep_scores, softmax_over, swapped, without_biases

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


def named(*names: str):
    return [BY_NAME[name] for name in names]


def inputs() -> Inputs:
    random = torch.Generator().manual_seed(0)
    by = [Affine(torch.randn(6, 6, generator=random), torch.randn(6, generator=random)) for _ in range(4)]
    x = torch.randn(2, 3, 6, generator=random)
    return Inputs(x, x, x, 2, Projections(*by))


def test_a_step_is_replaced_and_the_others_stay():
    made = change_steps(RIGHT, {"scale": keep_scores})
    assert made.scale is keep_scores and made.score is RIGHT.score and change_steps(RIGHT, {}) == RIGHT


def test_one_step_cannot_be_changed_twice():
    made = change_steps(RIGHT, {"normalise": softmax_over(0)})
    assert change_steps(made, {"normalise": softmax_over(1)}) is None
    assert change_steps(made, {"scale": keep_scores, "normalise": softmax_over(1)}) is None
    assert list(with_mistakes(RIGHT, named("softmax over heads", "softmax over queries"))) == []
    assert list(with_mistakes(RIGHT, named("no scale", "temperature"))) == []


def test_steps_that_take_what_they_give_are_done_one_after_the_other():
    both = change_steps(
        change_steps(RIGHT, {"projections": swapped}), {"projections": lambda by: without_biases(by, ("query",))}
    )
    by = both.projections(inputs().projections)
    given = inputs().projections
    assert torch.equal(by.query.weight, given.key.weight) and by.query.bias is None
    assert torch.equal(by.key.bias, given.query.bias)


def test_two_mistakes_are_made_in_all_ways_of_each_or_in_a_few():
    two = named("softmax over queries", "heads joined in the wrong order")
    assert [len(one.changes) for one in two] == [5, 4]
    assert len(list(with_mistakes(RIGHT, two))) == 20
    assert len(list(with_mistakes(RIGHT, two, few=1))) == 1
    assert list(with_mistakes(RIGHT, ())) == [RIGHT]


@pytest.mark.parametrize("names", [("no scale", "no W_O"), ("keys as values", "softmax over queries")])
def test_both_are_in_it(names):
    [made, *_] = with_mistakes(RIGHT, named(*names))
    for name in names:
        [change, *_] = BY_NAME[name].changes
        assert all(getattr(made, step) is not getattr(RIGHT, step) for step in change)
    outputs = [formula(inputs()).output for formula in (made, RIGHT)]
    assert not torch.allclose(*outputs)
