"""A mistake is named if it explains all that came out, and nothing is named if none does."""

from dataclasses import replace

import pytest
import torch
from checks.theirs.examined import HEADS, LAYOUTS, PAIRS

from attncli.attention.masks import causal_mask
from attncli.attention.mistakes import MISTAKES, RIGHT, Formula, Inputs, Seen, with_mistakes
from attncli.checks.code.subject import Answer, Parameter
from attncli.checks.theirs.attention.diagnosis import diagnose
from attncli.checks.theirs.attention.fitting import Fit, Trial
from attncli.checks.theirs.calling.forms import Form
from attncli.checks.theirs.calling.roles import roles_of

BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
NAMES = ("query", "key", "value", "mask")
FORM = Form(roles_of([Parameter(name, "positional", True) for name in NAMES], {}), LAYOUTS[HEADS], {"mask": PAIRS})
FIT = Fit(FORM, None, "float64", True, RIGHT, (), known=False)


def inputs(masked: bool) -> Inputs:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, tokens, 4, generator=random, dtype=torch.float64) for tokens in (3, 5, 5))
    return Inputs(query, key, value, 3, seen=Seen(pairs=causal_mask(3, 5)) if masked else Seen())


def wrong(*names: str) -> Formula:
    return next(with_mistakes(RIGHT, [BY_NAME[name] for name in names]))


def trial(formula: Formula, masked: bool) -> Trial:
    given = inputs(masked)
    return Trial(FORM, None, given, Answer((formula(given).output,)), "float64")


def named(plain: Formula, masked: Formula, fit: Fit = FIT) -> list[str]:
    return [mistake.name for mistake in diagnose(fit, [trial(plain, False), trial(masked, True)])]


@pytest.mark.parametrize("name", ["no scale", "softmax over heads", "keys as values", "mask multiplied"])
def test_one_that_explains_all_trials_is_named(name):
    assert named(wrong(name), wrong(name)) == [name]


def test_what_explains_one_trial_alone_is_not_named():
    assert named(wrong("no scale"), RIGHT) == []


def test_nothing_is_named_where_nothing_is_wrong():
    assert named(RIGHT, RIGHT) == []


def test_two_are_named_where_no_one_explains_all():
    both = wrong("no scale", "mask multiplied")
    assert named(both, both) == ["no scale", "mask multiplied"]


def test_one_is_named_where_two_would_do_as_well():
    formula = wrong("no scale")
    assert named(formula, formula) == ["no scale"]


def test_what_no_mistake_explains_is_not_named():
    odd = replace(RIGHT, scale=lambda scores, sizes: scores.sin())
    assert named(odd, odd) == []


def test_it_goes_on_from_what_is_known():
    fit = replace(FIT, known=True, mistakes=(BY_NAME["no scale"],), variant=wrong("no scale"))
    both = wrong("no scale", "mask multiplied")
    assert named(wrong("no scale"), wrong("no scale"), fit) == ["no scale"]
    assert named(both, both, fit) == ["no scale", "mask multiplied"]


def test_errors_and_nan_alone_are_explained_by_nothing():
    nan = replace(RIGHT, scale=lambda scores, sizes: scores * torch.nan)
    fit = replace(FIT, known=True, mistakes=(BY_NAME["softmax over queries"],), variant=nan)
    assert named(nan, nan) == named(nan, nan, fit) == []
    failed = Trial(FORM, None, inputs(False), Answer(error="ValueError: no"), "float64")
    assert diagnose(FIT, [failed]) == ()


def test_an_error_is_explained_by_no_formula_that_can_be_computed():
    failed = Trial(FORM, None, inputs(True), Answer(error="ValueError: no"), "float64")
    assert diagnose(FIT, [trial(wrong("no scale"), False), failed]) == ()
