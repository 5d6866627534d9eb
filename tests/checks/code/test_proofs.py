"""The cases are as many as they should be, and each style is what it says, by torch alone."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from checks.code.known_cases import PAIRS, PLANTED, RIGHT, RIGHT_STYLES, STYLES, WRONG_STYLES
from checks.code.proofs_of_styles import LOWER, Given, attend, prove, random

pytestmark = pytest.mark.slow  # of the cases, not of the program


def test_there_are_74_right_programs_160_mistakes_14_pairs_and_30_styles_of_each_kind():
    assert [len(cases) for cases in (RIGHT, PLANTED, PAIRS, RIGHT_STYLES, WRONG_STYLES)] == [74, 160, 14, 30, 30]
    assert set(Counter(case.mistakes for case in PLANTED).values()) == {5}
    assert len({case.name for case in RIGHT_STYLES}) == 30


@pytest.mark.parametrize("case", [*PLANTED, *WRONG_STYLES], ids=lambda case: case.title)
def test_what_a_mistake_replaces_stands_once_in_the_right_program(case):
    for old, new in case.edits:
        assert case.base.count(old) == 1 and new != old
    assert not case.marker or case.marker in case.source.splitlines()


@torch.no_grad()
def differences(style, folder):
    """Return the largest difference of each output from the proof, then the change of each input."""
    torch.manual_seed(0)
    given, found = Given(), []
    try:
        for got, expected in prove(style.name, style.load(folder, style.name), given):
            assert got.shape == expected.shape and expected.isfinite().all()
            found.append((got - expected).abs().max().nan_to_num(torch.inf).item())
    except RuntimeError:  # some mistakes do not fit texts of other lengths; before that they have to show in numbers
        if style.right:
            raise
    before = vars(Given())
    return found + [(one.double() - before[name].double()).abs().max().item() for name, one in vars(given).items()]


@pytest.mark.parametrize("style", STYLES, ids=lambda one: one.title)
def test_a_right_style_gives_what_its_formula_says_and_a_wrong_one_does_not(style, tmp_path):
    difference = max(differences(style, tmp_path))
    assert difference < 1e-5 if style.right else difference > 1e-3  # some compute a part in float32


@pytest.mark.parametrize("style", [one for one in STYLES if one.adapter], ids=lambda one: one.title)
def test_an_adapter_is_the_module_with_another_constructor(style, tmp_path):
    assert style.load(tmp_path).__mro__[1].__name__ == style.name


def test_the_loops_are_torchs_attention():
    q, k, v = random(2, 4, 5, 3), random(2, 2, 7, 3, seed=1), random(2, 2, 7, 3, seed=2)
    for options in ({"bias": random(4, 5, 7, seed=3)}, {"allowed": LOWER[:5]}):
        expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, attn_mask=next(iter(options.values())))
        torch.testing.assert_close(attend(q, k, v, **options), expected)
