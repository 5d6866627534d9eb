"""Each law holds for attention, and fails for one that breaks it."""

import pytest
import torch
from checks.theirs.examined import PADDING, PAIRS, attention_with, examined

from attncli.checks.theirs.attention.laws import check_laws

ROWS, KEYS, TOKENS = (
    "weights sum to 1",
    "permuting keys with values changes nothing",
    "permuting tokens permutes the output",
)
FUTURE, APPENDED = "the future changes no prefix", "appended [PAD] changes nothing"


def laws_of(attention) -> dict:
    of = examined(attention, mask=PAIRS, padding=PADDING)
    return {check.name: check for check in check_laws(of)}


def by_key(scores: torch.Tensor) -> torch.Tensor:
    return scores + torch.arange(scores.shape[-1])


def by_query(scores: torch.Tensor) -> torch.Tensor:
    return scores * torch.arange(1, scores.shape[-2] + 1)[:, None]


BROKEN = {
    "none": (attention_with(), ()),
    "sigmoid": (attention_with(normalise=torch.sigmoid), (ROWS,)),
    "places of keys": (attention_with(scores=by_key), (KEYS, TOKENS)),
    "places of queries": (attention_with(scores=by_query), (TOKENS,)),
    "mask of pairs never used": (attention_with(mask_of_pairs=torch.ones_like), (FUTURE,)),
    "padding never used": (attention_with(mask_of_padding=torch.ones_like), (APPENDED,)),
    "scaled by length": (attention_with(scores=lambda x: x * x.shape[-1]), (FUTURE, APPENDED)),
}


@pytest.mark.parametrize("attention, broken", BROKEN.values(), ids=BROKEN)
def test_a_law_fails_where_it_is_broken_and_no_other(attention, broken):
    laws = laws_of(attention)
    assert len(laws) == 5 and {name for name, check in laws.items() if check.holds is not True} == set(broken)
    for name in broken:
        assert laws[name].holds is False and laws[name].difference > 1e-3


def test_each_law_is_broken_by_something_above():
    assert {name for _, broken in BROKEN.values() for name in broken} == set(laws_of(BROKEN["none"][0]))


def test_without_masks_two_laws_are_not_checked():
    laws = {check.name: check for check in check_laws(examined(attention_with()))}
    assert [name for name, check in laws.items() if check.holds is None] == [FUTURE, APPENDED]
    assert all("no such mask" in laws[name].note for name in (FUTURE, APPENDED))


def test_what_fails_is_no_law_that_holds():
    def attention(query, key, value):
        raise ValueError("no")

    assert {check.holds for check in check_laws(examined(attention))} == {None}
