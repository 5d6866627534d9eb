"""The names that options offer: each has what it promises, and there is nothing of that kind without a name."""

from typing import get_origin

import pytest
import torch

from attncli import RequestError
from attncli.align import checkpoint, networks
from attncli.analysis.patterns import PATTERNS
from attncli.attention import MASKS
from attncli.base import choices
from attncli.base.choices import check, names, several
from attncli.checks.tolerance import TOLERANCES
from attncli.corpus.sums import FIGURES, LINEAR, MEANING
from attncli.features.compare.agreement import THEIR_OWN
from attncli.models.devices import DTYPES

EVERY = {name: choice for name, choice in vars(choices).items() if get_origin(choice) is choices.Literal}


@pytest.mark.parametrize("choice", EVERY.values(), ids=EVERY)
def test_names_are_words_each_once_and_another_is_refused_with_all_of_them(choice):
    assert len(set(names(choice))) == len(names(choice)) > 1
    for name in names(choice):
        assert name == name.strip().lower() and "," not in name
        check("thing", name, choice)
    with pytest.raises(RequestError) as refusal:
        check("thing", "nonsense", choice)
    assert str(refusal.value) == f"no thing 'nonsense': use one of {', '.join(names(choice))}"


def test_several_are_taken_apart_and_each_is_checked_and_kept_once():
    assert several("mask", "none, causal,none", choices.MaskName) == ["none", "causal"]
    with pytest.raises(RequestError, match="no mask 'x': use one of padding, causal, none"):
        several("mask", "none,x", choices.MaskName)


# --- what stands beside the formulas --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "registry"),
    [
        (choices.MaskName, MASKS),
        (choices.Figure, MEANING),
        (choices.AttentionName, checkpoint.SIZES),
        (choices.AttentionName, [*networks.SCORE_NAMES, "transformer"]),
        (choices.Against, THEIR_OWN),
    ],
)
def test_registries_have_the_same_names_in_the_same_order(choice, registry):
    assert tuple(registry) == names(choice)


@pytest.mark.parametrize("registry", [TOLERANCES, DTYPES])
def test_every_dtype_is_torchs_and_has_a_tolerance(registry):
    assert set(registry) == set(names(choices.DtypeName))
    assert all(getattr(torch, name).is_floating_point for name in registry)


def test_figures_are_those_that_statistics_have():
    assert names(choices.Figure) == FIGURES == ("entropy", "strongest", *LINEAR)
    assert set(PATTERNS) < set(LINEAR)


# --- what the model makes of them -----------------------------------------------------------------------
