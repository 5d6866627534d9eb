"""The smallest input on which it differs is told, with both results."""

import re

import torch
from checks.theirs.examined import PADDING, PAIRS, attention_with, examined

from attncli.checks.theirs.attention.smallest import SHOWN, shown, smallest_of

MASKS = {"mask": PAIRS, "padding": PADDING}


def test_what_is_right_differs_nowhere():
    assert smallest_of(examined(attention_with(), **MASKS)) == ""


def test_with_one_key_any_weights_of_one_are_right():
    said = smallest_of(examined(attention_with(scores=lambda x: 3 * x), **MASKS))
    assert said.startswith("of queries and keys 1 and 2 (query [") and "; the formula gives " in said


def test_what_is_wrong_with_a_mask_is_shown_with_one():
    said = smallest_of(examined(attention_with(mask_of_pairs=torch.ones_like), **MASKS))
    assert said.startswith("of queries and keys 2 and 2, a causal mask (query [")


def test_the_numbers_are_those_of_the_formula():
    said = smallest_of(examined(lambda query, key, value: 2 * value[..., :1, :].expand_as(query)))
    assert said.startswith("of queries and keys 1 and 1 ")
    given = said.partition("value [")[2].partition("]")[0]
    place, theirs, ours = re.search(r"output\[0, 0, 0, (\d)\] is (\S+); the formula gives (\S+)$", said).groups()
    values = [float(x) for x in given.split(",")]
    assert float(ours) == values[int(place)] and float(theirs) == 2 * float(ours)
    assert abs(float(ours)) == max(map(abs, values))  # the place where the two are furthest apart


def test_as_many_digits_are_told_as_tell_the_two_apart():
    said = smallest_of(examined(lambda query, key, value: attention_with()(query, key, value) + 1e-6))
    theirs, ours = re.search(r" is (\S+); the formula gives (\S+)$", said).groups()
    assert theirs != ours


def test_an_error_is_told():
    def attention(query, key, value):
        if key.shape[-2] > 2:
            raise ValueError("too long")
        return attention_with()(query, key, value)

    said = smallest_of(examined(attention))
    assert said.startswith("of queries and keys 2 and 3") and "it can't be run: ValueError: too long" in said


def test_few_numbers_are_shown():
    assert shown(torch.arange(SHOWN)) == "[0, 1, 2, 3, 4, 5]"
    assert shown(torch.arange(SHOWN + 1)) == "[0, 1, 2, 3, 4, 5, ...]"
    assert shown(torch.tensor([1 / 3, float("nan")])) == "[0.3333, nan]"
