"""Right attention and its wrong neighbours, kind by kind: the verdict is true, and the mistake has its name."""

import inspect
import re

import pytest
import torch
from checks.code.cases import neighbours
from slow import slow_except
from torch import nn

import attncli
from attncli.testing import assert_no_leak

OWN = [thing for thing in vars(neighbours).values() if getattr(thing, "__module__", "") == neighbours.__name__]
CASES = {one.__name__: one for one in OWN if (inspect.isclass(one) or inspect.isfunction(one)) and one.__doc__}
del CASES["Base"]
QUICK = re.findall(
    r"\w+",
    """
    WeightsOnDemand FastSwapsKeys EvalKernel TablesUnread RotationOff CappedToNothing LongWindowForgotten SelfUnmasked
    CrossedByQuery OnesMillion OnesTen Added CausalFill CausalFillLow CausalUnlessMasked OneForAll KeysUnnormed PostNorm
    RotatedUnscaled OtherMemory homework homework_over_rows homework_heads homework_without_keepdims
    StepsFromTheFirstKey RotatedStepsFromZero FoldedOtherMasks FoldedReadBack
    """,
)


@pytest.mark.parametrize("name", slow_except(CASES, QUICK))
def test_the_verdict_is_true_and_the_mistake_is_named(name):
    found, wanted = attncli.check(CASES[name]), CASES[name].__doc__
    assert found.right == (wanted == "right"), found
    if wanted not in ("right", "wrong"):
        assert " + ".join(one.mistake for one in found.diagnosis) == wanted
    if found.right:
        assert found.verdict.startswith(f"right: {name} computes attention"), found


def test_a_number_that_hides_too_little_is_named_with_the_size_at_which_it_does():
    [one] = attncli.check(neighbours.ForbiddenWeakly).diagnosis
    assert one.says == "whose hidden keys keep weight: -50 is not low enough for scores that differ by 26 or more"


def test_an_error_in_the_code_is_shown_with_its_line_and_not_as_a_wrong_call():
    def unfinished(query, key, value):
        assert query.ndim == 2
        return query @ key.T / undefined  # noqa: F821

    with pytest.raises(attncli.RequestError) as refused:
        attncli.check(unfinished)
    said = str(refused.value)
    assert re.search(
        r"NameError: name 'undefined' is not defined \(line \d+\): return query @ key.T / undefined", said
    ), said
    assert "adapter" not in said


class Whole(nn.Module):
    """A small language model."""

    def __init__(self, ahead=0):
        super().__init__()
        self.ahead, self.embedding, self.attention = ahead, nn.Embedding(40, 32), neighbours.Base(32, 4)

    def forward(self, input_ids, attention_mask=None):
        x = self.embedding(input_ids)
        q, k, v = self.attention.parts(x)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(self.ahead)
        seen = seen if attention_mask is None else seen & attention_mask[:, None, None].bool()
        return x + self.attention.glue(self.attention.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v)


def test_the_advice_for_a_whole_model_works_when_followed():
    with pytest.raises(attncli.RequestError) as refused:
        attncli.check(Whole)
    said = str(refused.value)
    names = {"Whole": Whole, "attncli": attncli, "assert_no_leak": assert_no_leak}
    for whole, leaks in ((Whole, False), (lambda: Whole(1), True)):
        model = whole().eval()
        line = said.partition("eval(); ")[2].replace("attncli.testing.", "")
        try:
            exec(line, names | {"model": model})
            assert not leaks
        except AssertionError as error:
            assert leaks and "breaks look-ahead" in str(error)


def test_what_was_never_handed_in_stands_in_the_first_line():
    def attention(query, key, value, seed=None):
        return neighbours.filled_function(query, key, value)

    assert attncli.check(attention).verdict.startswith("right, but never called with seed: ")
