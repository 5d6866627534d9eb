"""The right styles are right and the wrong ones wrong, by plain loops and by torch, without anything of attncli."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from checks.code.cases import HERE, RIGHT, STYLES, WRONG
from checks.code.proofs import LOWER, PROOFS, Given, attend, random

EQUAL, DIFFERENT = 1e-5, 1e-3  # some compute the softmax, the scale or the angles in float32


@torch.no_grad()
def differences(style, folder) -> list[float]:
    """Return the largest difference of each output from the proof, then the change of each input."""
    torch.manual_seed(0)
    given, found = Given(), []
    try:
        for got, expected in PROOFS[style.name](style.load(folder, style.name), given):
            assert got.shape == expected.shape and expected.isfinite().all()
            found.append((got - expected).abs().max().nan_to_num(torch.inf).item())
    except RuntimeError:  # some mistakes do not fit texts of other lengths; before that they have to show in numbers
        if style.right:
            raise
    before = vars(Given())
    return found + [(one.double() - before[name].double()).abs().max().item() for name, one in vars(given).items()]


@pytest.mark.parametrize("style", RIGHT, ids=lambda one: one.title)
def test_a_right_style_gives_what_its_formula_says(style, tmp_path):
    assert max(found := differences(style, tmp_path)) < EQUAL, found


@pytest.mark.parametrize("style", WRONG, ids=lambda one: one.title)
def test_a_wrong_style_gives_something_else(style, tmp_path):
    assert max(found := differences(style, tmp_path)) > DIFFERENT, found
    text = (HERE / style.file).read_text(encoding="utf-8")
    assert text.count(style.old) == 1
    assert style.source.splitlines()[style.line - 1] == style.marker


def test_there_are_thirty_of_each():
    assert len(RIGHT) == len(WRONG) == 30


def test_titles_and_names_are_unique_and_every_proof_is_used():
    assert max(Counter(one.title for one in STYLES).values()) == 1
    assert len({one.name for one in RIGHT}) == len(RIGHT)
    assert {one.name for one in RIGHT} == set(PROOFS)


@pytest.mark.parametrize("style", [one for one in STYLES if one.adapter], ids=lambda one: one.title)
def test_an_adapter_is_the_module_with_another_constructor(style, tmp_path):
    parent = style.load(tmp_path).__mro__[1]
    assert parent.__name__ == style.name
    assert len([line for line in style.adapter.splitlines() if line]) <= 5


def test_the_loops_are_torchs_attention():
    q, k, v = random(2, 4, 5, 3), random(2, 2, 7, 3, seed=1), random(2, 2, 7, 3, seed=2)
    bias = random(4, 5, 7, seed=3)
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, attn_mask=bias)
    torch.testing.assert_close(attend(q, k, v, bias=bias), expected)
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, attn_mask=LOWER[:5])
    torch.testing.assert_close(attend(q, k, v, LOWER[:5]), expected)
