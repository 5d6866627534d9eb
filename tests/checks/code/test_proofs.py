"""Each case is what it says, by torch alone: right ones are attention, and wrong ones give something else."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from checks.code import proofs_of_styles
from checks.code.known_cases import BASES, PAIRS, PLANTED, RIGHT, RIGHT_STYLES, STYLES, TUTORIALS, WRONG_STYLES
from checks.code.proofs_of_programs import MASK, S, Setting, outputs
from checks.code.proofs_of_styles import LOWER, Given, attend, random

QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:flex_attention called without")
# The setting in which a mistake shows, if it does not show in the plain one.
SHOWS = {
    "mask after softmax": {"masked": True},
    "mask multiplied": {"masked": True},
    "mask never used": {"masked": True},
    "mask inverted": {"masked": True},
    "[PAD] hidden as query": {"masked": True},
    "fully masked rows uniform": {"masked": True, "hidden": True},
    "-1e9 in half precision": {"masked": True, "dtype": torch.float16},
    "no maximum subtracted": {"size": 100},
}


def differ(one, other, tolerance=1e-6):
    return one.shape != other.shape or not torch.allclose(one, other, atol=tolerance, rtol=1e-3, equal_nan=True)


def test_there_are_71_right_programs_150_mistakes_14_pairs_and_30_styles_of_each_kind():
    assert [len(cases) for cases in (RIGHT, PLANTED, PAIRS, RIGHT_STYLES, WRONG_STYLES)] == [71, 150, 14, 30, 30]
    assert set(Counter(case.mistakes for case in PLANTED).values()) == {5}
    assert len({case.name for case in RIGHT_STYLES}) == 30


@pytest.mark.parametrize("case", [*PLANTED, *WRONG_STYLES], ids=lambda case: case.title)
def test_what_a_mistake_replaces_stands_once_in_the_right_program(case):
    for old, new in case.edits:
        assert case.base.count(old) == 1 and new != old
    assert not case.marker or case.marker in case.source.splitlines()


@QUIET
@pytest.mark.slow
@pytest.mark.parametrize("case", [*RIGHT, *BASES.values()], ids=lambda case: case.title)
def test_a_right_program_is_what_torch_computes(case, tmp_path):
    masked = MASK(case.title) is not None
    settings = [Setting(S), Setting(S, masked=True), Setting(S, size=10)]
    if case.title in ("batched_added", "broadcast_padding"):  # they need a mask
        settings = [one._replace(masked=True) for one in settings]
    for setting in settings if masked else settings[::2]:
        given, expected = outputs(case, tmp_path, setting)
        torch.testing.assert_close(given, expected)


@QUIET
@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("case", [*PLANTED, *PAIRS], ids=lambda case: case.title)
def test_a_planted_mistake_changes_the_output(case, tmp_path):
    setting = Setting()._replace(**{name: value for one in case.mistakes for name, value in SHOWS.get(one, {}).items()})
    singles = [case._replace(edits=case.edits[:place] + case.edits[place + 1 :]) for place in range(len(case.edits))]
    for other in singles:  # the right program if there is one mistake
        right, _ = outputs(other, tmp_path, setting)
        try:
            wrong, _ = outputs(case, tmp_path, setting)
        except RuntimeError as error:  # -1e9 is no number of half precision
            assert case.mistakes == ("-1e9 in half precision",) and "overflow" in str(error)
        else:
            assert differ(wrong, right, 1e-2 if setting.dtype == torch.float16 else 1e-6)


def test_a_backward_by_hand_is_that_of_torch(tmp_path):
    thing = next(case for case in RIGHT if case.name == "backward_by_hand").load(tmp_path)
    given = [random(2, 3, 5, 4, seed=seed).requires_grad_() for seed in range(3)]
    cotangent = random(2, 3, 5, 4, seed=3)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*given), given, cotangent)
    torch.testing.assert_close(torch.autograd.grad(thing(*given), given, cotangent), expected)


@torch.no_grad()
@pytest.mark.parametrize("case", [one for one in TUTORIALS if one.title.endswith("MultiHeadAttention")])
def test_the_tutorial_forgets_the_mask_in_its_first_listing_alone(case, tmp_path):
    module = case.load(tmp_path)(16, 4).double()
    x, mask = random(2, 5, 16), LOWER[:5, :5]
    names = {"mask": mask} if case.mistakes else {"attention_mask": mask}
    assert torch.equal(module(x, x, x), module(x, x, x, **names)) == (not case.right)
    q, k, v = (layer(x).unflatten(-1, (4, -1)).transpose(1, 2) for layer in (module.W_Q, module.W_K, module.W_V))
    expected = F.scaled_dot_product_attention(q, k, v, mask if case.right else None)
    torch.testing.assert_close(module(x, x, x, **names), module.W_O(expected.transpose(1, 2).flatten(2)))


# --- code as people ship it -------------------------------------------------------------------------------


@torch.no_grad()
def differences(style, folder):
    """Return the largest difference of each output from the proof, then the change of each input."""
    torch.manual_seed(0)
    given, found = Given(), []
    try:
        for got, expected in getattr(proofs_of_styles, style.name)(style.load(folder, style.name), given):
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
