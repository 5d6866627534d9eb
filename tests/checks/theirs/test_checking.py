"""Right attention is found right, mistakes are found and named, in the styles in which people write it."""

import inspect

import pytest
import torch
from check_table import ALONE, found_in, found_right, table
from checks.theirs import tutorials
from checks.theirs.loaded import loaded
from checks.theirs.right import RIGHT
from checks.theirs.tutorials import TUTORIALS
from checks.theirs.wrong import PAIRS, PLANTED

import attncli
from attncli.attention.mistakes import MISTAKES
from attncli.base.errors import RequestError
from attncli.checks.code.check import check

NAMES = sorted({one.mistake for [one] in ALONE})
QUICK = ("batched", "added", "with_mask", "fused_kernel", "LinearQ", "MatricesBefore")
QUICK_WRONG = (
    ("no scale", "function"),
    ("mask after softmax", "arrays"),
    ("keys as values", "arrays"),
    ("key heads in the wrong order", "grouped_function"),
    ("-1e9 in half precision", "function"),
)
NUMPY = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what overflows
CONVENTIONS = {"True means forbidden": "forbidden"}


def planted(mistake: str, style: str):
    return next(one for one in PLANTED if (one.mistake, one.style) == (mistake, style))


@NUMPY
@pytest.mark.parametrize(
    "right", [pytest.param(one, id=one.name, marks=[pytest.mark.slow] * (one.name not in QUICK)) for one in RIGHT]
)
def test_what_is_right_is_found_right(right):
    found = found_right(right)
    assert found.right, [found.verdict, *(one for one in found.checks if one.holds is False)]
    assert not found.diagnosis and not found.smallest and found.verdict.startswith("right: ")
    assert sum(one.holds is True for one in found.checks) > 8


@NUMPY
@pytest.mark.parametrize("mistake, style", QUICK_WRONG)
def test_a_mistake_is_found_and_named(mistake, style):
    named = found_in(planted(mistake, style))
    assert named.wrong and named.hit, named


@NUMPY
@pytest.mark.slow
@pytest.mark.parametrize("mistake", NAMES)
def test_a_mistake_is_found_always_and_named_in_four_of_five_styles(mistake):
    named = [found_in(one) for [one] in ALONE if one.mistake == mistake]
    missed = [str(one) for one in named if not one.hit]
    assert all(one.wrong for one in named), missed
    assert len(named) >= 4 and len(missed) <= 1, missed


@NUMPY
@pytest.mark.slow
@pytest.mark.parametrize("planted", [ALONE, PAIRS], ids=["one", "two"])
def test_nine_of_ten_are_named_and_nothing_else_with_them(planted):
    named = [found_in(*each) for each in planted]
    print(*table(named), sep="\n")
    assert all(one.wrong for one in named)
    assert sum(one.hit for one in named) >= 0.9 * len(named), [str(one) for one in named if not one.hit]


def test_every_mistake_in_attention_is_planted_somewhere():
    assert set(NAMES) == {one.name for one in MISTAKES}


@NUMPY
@pytest.mark.slow
@pytest.mark.parametrize("tutorial", [one for one in TUTORIALS if one.name != "BahdanauAttention"])
def test_a_tutorials_slip_is_named(tutorial, tmp_path):
    thing = getattr(tutorials, tutorial.name)
    if tutorial.name.endswith("_of_arrays"):  # in a file of its own, as torch's arrays go first where there is torch
        thing = loaded(f"import numpy as np\n\n{inspect.getsource(thing)}", tutorial.name, tmp_path)
    found = check(thing, nowhere="zero-or-nan")
    assert [one.mistake for one in found.diagnosis] == [tutorial.mistake] * (tutorial.mistake is not None)
    assert found.right == (tutorial.mistake is None)
    if tutorial.convention == tutorials.NAN:
        assert next(one.note for one in found.checks if "nothing" in one.name) == "it gives NaN"
    elif tutorial.convention is not None:
        assert any(CONVENTIONS[tutorial.convention] in one for one in found.conventions)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_it_runs_with_one_thread_and_gives_the_others_back(two_threads):
    seen = []

    def number(query, key, value):
        seen.append(torch.get_num_threads())
        return query.sum()

    with pytest.raises(RequestError, match="none of what it gives has the output's shape"):
        attncli.check(number)
    assert set(seen) == {1} and torch.get_num_threads() == 2


def of_value(query, key, value):
    return value


@pytest.mark.parametrize(
    "wanted, said",
    [
        ({"means": "perhaps"}, "perhaps"),
        ({"nowhere": "home"}, "home"),
        ({"layout": "sideways"}, "sideways"),
    ],
)
def test_a_name_that_is_no_choice_is_refused(wanted, said):
    with pytest.raises(RequestError, match=said):
        check(of_value, **wanted)


def test_an_unknown_field_is_a_mistake_of_the_caller():
    with pytest.raises(TypeError):
        check(of_value, colour="red")
