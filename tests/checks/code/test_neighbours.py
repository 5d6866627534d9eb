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


def test_scores_that_are_returned_as_weights_are_told():
    def attention(query, key, value):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return scores.softmax(-1) @ value, scores

    found = attncli.check(attention)
    assert "fails 1 of 16 checks (returned weights: they are the scores, before softmax)" in found.verdict


def test_weights_that_are_returned_without_the_mask_are_told():
    def attention(query, key, value, mask=None):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        hidden = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        return hidden.softmax(-1) @ value, weights

    found = attncli.check(attention)
    assert "(returned weights: they are not those under the mask)" in found.verdict


def test_what_was_never_handed_in_stands_in_the_first_line():
    def attention(query, key, value, seed=None):
        return neighbours.filled_function(query, key, value)

    assert attncli.check(attention).verdict.startswith("right, but never called with seed: ")


class Resampler(neighbours.Base):
    """Latents that attend to the memory and to themselves."""

    def forward(self, latents, memory):
        q, k, v = self.parts(latents, torch.cat([latents, memory], 1))
        return self.glue(self.scores(q, k).softmax(-1) @ v)


class Latent(nn.Module):
    """Keys and values made of a smaller vector, as in multi-head latent attention."""

    def __init__(self, dim, heads):
        super().__init__()
        self.q_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.kv_a_proj, self.kv_b_proj = nn.Linear(dim, 6), nn.Linear(6, 2 * dim)

    def forward(self, x):
        k, v = self.kv_b_proj(self.kv_a_proj(x)).chunk(2, -1)
        return self.o_proj((self.q_proj(x) @ k.mT).softmax(-1) @ v)


class Convolved(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(in_channels, in_channels, 1) for _ in range(3))

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (Resampler, "Resampler attends to its queries too, not to the memory alone"),
        (Latent, "Latent makes queries of 80 numbers per token and keys of 6, from one input"),
        (Convolved, r"q.weight is the weight of a convolution, \[80, 80, 1, 1\]"),
    ],
)
def test_attention_of_another_form_is_refused_in_one_line_that_says_which(thing, said):
    with pytest.raises(attncli.RequestError, match=said) as refused:
        attncli.check(thing)
    assert "adapter" not in str(refused.value)
