"""Gradients that are wrong are found, where the output is right."""

import pytest
import torch
from checks.theirs.examined import attention_with, examined

from attncli.attention import attend
from attncli.checks.theirs.attention.gradients import check_gradients

right = attention_with()


class Twice(torch.autograd.Function):
    """Gives back what it is given, and another gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.001 * gradient


def of_a_wrong_backward(query, key, value):
    return right(query, Twice.apply(key), value)


def of_detached_values(query, key, value):
    return right(query, key, value.detach())


def of_detached_weights(query, key, value):
    return attend(query, key, value).weights.detach() @ value


def checked(attention, dtype="float64"):
    return check_gradients(examined(attention, dtype))


def test_those_of_attention_are_right():
    ours, finite = checked(right)
    assert ours.holds and finite.holds and ours.difference < 1e-12 and finite.difference < 1e-7


@pytest.mark.parametrize("attention", [of_a_wrong_backward, of_detached_values, of_detached_weights])
def test_those_of_what_is_wrong_behind_are_not(attention):
    ours, finite = checked(attention)
    assert ours.holds is False and finite.holds is False and ours.difference > 1e-4


def test_a_right_gradient_of_another_function_is_its_own():
    ours, finite = checked(attention_with(scores=lambda x: 2 * x))
    assert ours.holds is False and finite.holds


def test_float32_has_no_finite_differences():
    ours, finite = checked(right, "float32")
    assert ours.holds and finite.holds is None and "float32" in finite.note


def no_gradients(query, key, value):
    with torch.no_grad():
        return right(query, key, value)


def failing(query, key, value):
    raise ValueError("no")


@pytest.mark.parametrize(
    "attention, said",
    [(no_gradients, "torch can't differentiate it"), (failing, "it can't be differentiated: ValueError")],
)
def test_what_has_none_is_not_wrong(attention, said):
    for check in checked(attention):
        assert check.holds is None and said in check.note
