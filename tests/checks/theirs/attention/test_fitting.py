"""How attention is called and what it means is found out by trying."""

import pytest
import torch
from checks.theirs.examined import HEADS, asked
from torch import nn

from attncli.attention import attend
from attncli.base.errors import RequestError


def right(query, key, value, mask=None):
    return attend(query, key, value, mask).output


def fit_of(thing, masks=False, **wanted):
    it = asked(thing, **wanted)
    fit = it.fit(it.trials())
    return it.fit_masks(fit) if masks else fit


def test_the_formula_is_the_formula():
    fit = fit_of(right)
    assert (fit.known, fit.mistakes, fit.conventions, fit.dtype, fit.crosses) == (True, (), (), "float64", True)
    assert fit.form.layout.name == HEADS and fit.variant is fit.formula


def tokens_first(query, key, value):
    return right(*(x.transpose(1, 2) for x in (query, key, value))).transpose(1, 2)


def without_batch(query, key, value):
    assert query.dim() == 3 and query.shape[0] == 4  # heads
    return right(query, key, value)


def matrices(query, key, value):
    assert query.dim() == 2
    return right(query, key, value)


@pytest.mark.parametrize(
    "attention, layout",
    [(tokens_first, "batch token head d"), (without_batch, "head token d"), (matrices, "token d")],
)
def test_the_layout_is_found(attention, layout):
    fit = fit_of(attention)
    assert fit.form.layout.name == layout and fit.known and not fit.mistakes


def test_a_layout_that_is_asked_for_is_taken():
    assert fit_of(right, layout="head token d").form.layout.name == "head token d"
    with pytest.raises(RequestError, match="--layout 'sideways' is none of: batch head token d, "):
        fit_of(right, layout="sideways")


def causal(query, key, value):
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    return right(query, key, value, mask.tril(key.shape[-2] - query.shape[-2]))


def causal_from_the_first(query, key, value):
    return right(query, key, value, torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril())


@pytest.mark.parametrize(
    "attention, convention",
    [(causal, "causal by itself"), (causal_from_the_first, "causal by itself, counted from the first key")],
)
def test_a_convention_is_no_mistake(attention, convention):
    fit = fit_of(attention)
    assert fit.conventions == (convention,) and fit.known and not fit.mistakes


class InTurns(nn.Module):
    """Element i is head i mod heads', in and out."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)

    def forward(self, x):
        out = right(self.split(self.W_q(x)), self.split(self.W_k(x)), self.split(self.W_v(x)))
        return self.W_o(out.permute(0, 2, 3, 1).flatten(-2))


def test_heads_may_take_turns():
    fit = fit_of(InTurns)
    assert fit.conventions == ("heads take turns: element i is of head i mod heads",) and not fit.mistakes
    assert fit.reading.heads == 4 and not fit.crosses


def in_float32(query, key, value):
    assert query.dtype == torch.float32
    return right(query, key, value)


def test_what_takes_float32_alone_is_tried_in_it():
    fit = fit_of(in_float32)
    assert fit.dtype == "float32" and fit.known and not fit.mistakes


def of_one_length(query, key, value):
    assert query.shape == key.shape
    return right(query, key, value)


def test_keys_of_another_length_are_tried_and_need_not_be_taken():
    fit = fit_of(of_one_length)
    assert not fit.crosses and fit.known


@pytest.mark.parametrize("temperature", [0.37, 1.7, 13.0])
def test_any_temperature_is_estimated(temperature):
    fit = fit_of(lambda query, key, value: right(query / temperature, key, value))
    assert [one.name for one in fit.mistakes] == ["temperature"] and fit.known


def test_a_mistake_without_masks_is_found_at_once():
    fit = fit_of(lambda query, key, value: right(query * query.shape[-1] ** 0.5, key, value))
    assert [one.name for one in fit.mistakes] == ["no scale"] and fit.formula is not fit.variant


# --- masks ----------------------------------------------------------------------------------------------


def forbidden(query, key, value, mask=None):
    return right(query, key, value, None if mask is None else ~mask)


def added(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return (scores if mask is None else scores + mask).softmax(-1) @ value


def of_texts(query, key, value, mask=None):
    assert mask is None or mask.shape == (query.shape[0], 1, 1, key.shape[-2])
    return right(query, key, value, None if mask is None else mask.bool())


@pytest.mark.parametrize(
    "attention, means, shape",
    [
        (right, "allowed", "query key"),
        (forbidden, "forbidden", "query key"),
        (added, "added", "query key"),
        (of_texts, "allowed", "batch 1 1 key"),
    ],
)
def test_what_a_mask_means_is_found(attention, means, shape):
    fit = fit_of(attention, masks=True)
    [accepted] = fit.accepted.values()
    assert {one.means for one in accepted} == {means} and accepted[0].shape == shape and not fit.mistakes


def test_what_is_declared_is_not_found_out():
    assert fit_of(right, masks=True, means="allowed").mistakes == ()
    fit = fit_of(forbidden, masks=True, means="allowed")
    assert [one.name for one in fit.mistakes] == ["mask inverted"]


def test_a_mask_that_changes_nothing_is_never_used():
    fit = fit_of(lambda query, key, value, mask=None: right(query, key, value), masks=True)
    assert [one.name for one in fit.mistakes] == ["mask never used"]


# --- refusals -------------------------------------------------------------------------------------------


def test_what_fails_is_refused_with_its_error():
    def attention(query, key, value):
        raise ValueError("not today")

    with pytest.raises(RequestError, match=r"it can't be run: ValueError: not today \(line \d+\)"):
        fit_of(attention)


def test_what_gives_something_else_is_refused_with_its_shape():
    with pytest.raises(RequestError, match=r"none of what it gives has the output's shape: \[\]"):
        fit_of(lambda query, key, value: query.sum())


class Unreadable(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d_model, 6), nn.Linear(d_model, 7), nn.Linear(d_model, 8)

    def forward(self, x):
        return x


def test_weights_that_do_not_go_together_are_refused():
    with pytest.raises(RequestError, match="the weights of Unreadable don't fit together"):
        fit_of(Unreadable)
