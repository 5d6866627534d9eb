"""Erased tokens: the text is the one that is left, held against transformers, for every question."""

from itertools import permutations

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from invented import embedding_model

from attncli import load_model
from attncli.base.errors import RequestError
from attncli.effects.question import Asking, make_question
from attncli.features.trust.erasing import (
    DELETED,
    MASKED,
    Erasing,
    _chain,
    leave_one_out,
    leave_word_out,
    limits,
    order,
    sizes,
    steps,
    ways,
    width,
    words,
)

TEXT = "the cat sat on it, the big cat"
QUESTIONS = {
    "ForSequenceClassification": [Asking(kind="logit", target="LABEL_1"), Asking(), Asking(kind="distance")],
    "ForTokenClassification": [Asking(), Asking(kind="probability", target="LABEL_0", at="sat")],
    "ForMaskedLM": [Asking(), Asking(at="sat", kind="logit", target="big")],
    "ForQuestionAnswering": [Asking()],
}


@pytest.mark.parametrize("way", [MASKED, DELETED])
def test_the_number_is_that_of_a_text_without_the_tokens(tiny, way):
    folder = tiny("bert", head="ForSequenceClassification")
    model = load_model(str(folder), device="cpu")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    question = make_question(model, TEXT, Asking(kind="logit", target="LABEL_1"))
    ids = question.texts[0].tokens.ids
    sets = [frozenset(some) for some in ([2], [1, 3, 8], range(1, len(ids) - 2))]
    mask = model.tokenizer.backend.token_to_id("[MASK]")
    for places, change in zip(sets, Erasing(question, way).changes(sets), strict=True):
        if way == MASKED:
            left = [mask if place in places else number for place, number in enumerate(ids)]
        else:
            left = [number for place, number in enumerate(ids) if place not in places]
        with torch.no_grad():
            logit = theirs(torch.tensor([left])).logits[0, 1].item()
        assert question.value - change == pytest.approx(logit, abs=1e-5)


def test_a_word_is_erased_with_all_of_its_tokens(tiny):
    """ "unable" is two tokens; without it the text is the one that is left. As many others: 20 pairs, or each token."""
    folder = tiny("bert", head="ForSequenceClassification")
    model = load_model(str(folder), device="cpu")
    asking = Asking(kind="logit", target="LABEL_1")
    question = make_question(model, "the unable cat sat", asking)
    erasing = Erasing(question, DELETED)
    groups = words(question.texts[0].tokens, erasing.erasable)
    assert groups == [[1], [2, 3], [4], [5]]
    found, others = leave_word_out(erasing, groups, seed=0)
    for change, rest in zip(found, ["unable cat sat", "the cat sat", "the unable sat", "the unable cat"], strict=True):
        assert question.value - change == pytest.approx(make_question(model, rest, asking).value, abs=1e-5)
    alone = leave_one_out(erasing)
    for place, number in ((0, 0), (2, 3), (3, 4)):
        assert others[place] == pytest.approx(np.delete(alone, number).mean())
    pairs = erasing.changes([frozenset(pair) for pair in ((1, 4), (1, 5), (4, 5))])
    assert pairs.min() <= others[1] <= pairs.max() and np.ptp(pairs) > 0
    assert np.isnan(leave_word_out(erasing, [[1, 2, 3, 4, 5]], seed=0)[1]).all()


@pytest.mark.parametrize("head", QUESTIONS)
def test_nothing_erased_changes_nothing_and_something_does(tiny, head):
    model = load_model(str(tiny("bert", head=head)), device="cpu", dtype="float64")
    for asking in QUESTIONS[head]:
        text = TEXT.replace("big", "[MASK]") if head == "ForMaskedLM" and asking.at is None else TEXT
        question = make_question(model, text, asking)
        for way in ways(model):
            erasing = Erasing(question, way)
            del erasing.known[frozenset()]
            nothing, *some = erasing.changes([frozenset(), *(frozenset([place]) for place in erasing.erasable)])
            assert nothing == pytest.approx(0, abs=1e-9)
            assert np.abs(some).min() > 1e-9
            assert np.isfinite(some).all()


def test_special_tokens_and_the_one_that_is_asked_at_stay(tiny):
    model = load_model(str(tiny("bert", head="ForMaskedLM")), device="cpu")
    question = make_question(model, "the [MASK] sat", Asking(kind="logit", target="cat"))
    assert Erasing(question, DELETED).erasable == [1, 3]
    question = make_question(model, "the cat", Asking(kind="distance", pair="it"))
    assert Erasing(question, DELETED).erasable == [1, 2, 4]


def test_of_two_texts_tokens_of_the_first_are_erased(tmp_path):
    model = embedding_model(tmp_path / "embedding")
    question = make_question(model, "the cat sat", Asking(similar_to="the big cat"))
    shorter = make_question(model, "the sat", Asking(similar_to="the big cat"))
    assert leave_one_out(Erasing(question, DELETED))[1] == pytest.approx(question.value - shorter.value, abs=1e-9)
    masked = make_question(model, "the [MASK] sat", Asking(similar_to="the big cat"))
    assert leave_one_out(Erasing(question, MASKED))[1] == pytest.approx(question.value - masked.value, abs=1e-9)


@pytest.mark.parametrize("way", [MASKED, DELETED])
def test_a_distance_is_of_the_tokens_that_are_left(tiny, way):
    model = load_model(str(tiny("bert")), device="cpu", dtype="float64")
    question = make_question(model, "the cat sat", Asking())
    [change] = Erasing(question, way).changes([frozenset([2])])
    without = make_question(model, "the [MASK] sat" if way == MASKED else "the sat", Asking()).texts[0].last[0]
    before = question.texts[0].last[0][[0, 1, 3, 4]]
    after = without[[0, 1, 3, 4]] if way == MASKED else without
    assert change == pytest.approx(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean().item())


def test_without_a_mask_token_tokens_are_only_deleted(tiny, monkeypatch):
    model = load_model(str(tiny("bert")), device="cpu")
    assert ways(model) == [MASKED, DELETED]
    monkeypatch.setattr("attncli.features.trust.erasing.MASK_TOKENS", ("[GAP]",))
    assert ways(model) == [DELETED]


# --- limits -----------------------------------------------------------------------------------------------


def drawn(seed):
    """A change for every set, drawn once."""
    known, generator = {}, np.random.default_rng(seed)
    return lambda sets: np.array([known.setdefault(one, generator.normal()) for one in sets])


@pytest.mark.parametrize("counts", [[1], [1, 2], [1, 2, 3], [2, 4], [1, 3, 6]])
def test_the_limits_are_those_of_all_orders(counts):
    tokens, changes = [3, 4, 6, 7, 8, 9], drawn(len(counts))
    means = [changes(_chain(ranked, counts)).mean() for ranked in permutations(tokens)]
    told = []
    found = limits(changes, tokens, counts, 0, lambda: told.append(1))
    assert found == pytest.approx((min(means), max(means))) and len(told) == steps(counts, 0)
    wide = limits(changes, tokens, counts, 100, lambda: told.append(1))
    assert wide == pytest.approx(found) and len(told) == steps(counts, 0) + steps(counts, 100)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=9), st.integers(1, 4))
def test_where_tokens_add_up_a_beam_finds_the_limits_and_none_goes_past_them(values, beam):
    tokens, counts = range(len(values)), sizes(len(values))
    found = limits(
        lambda sets: np.array([sum(values[one] for one in some) for some in sets]), tokens, counts, beam, int
    )
    ranked = [sorted(values), sorted(values, reverse=True)]
    ends = [np.mean([sum(some[:count]) for count in counts]) for some in ranked]
    assert found == pytest.approx(tuple(ends))


def test_a_beam_stays_within_the_limits():
    changes, tokens = drawn(4), range(8)
    exact, beam = (limits(changes, tokens, [1, 2, 4], kept, int) for kept in (0, 2))
    assert exact[0] <= beam[0] <= beam[1] <= exact[1]


def test_few_tokens_are_tried_all_and_many_are_not_searched_unasked():
    assert [width(count, sizes(count), None) for count in (2, 12, 13, 24, 25, 200)] == [0, 0, 5, 5, None, None]
    assert width(200, sizes(200), 3) == 3 and width(14, sizes(14), 0) == 0
    with pytest.raises(RequestError, match=r"would try .* sets of 40 tokens: give a width, such as --beam 5"):
        width(40, sizes(40), 0)


def test_shares_of_the_tokens_are_rounded_up_and_count_once():
    assert sizes(2) == [1]
    assert sizes(10) == [1, 2, 5]
    assert sizes(14) == [1, 2, 3, 7]
    assert sizes(100) == [1, 5, 10, 20, 50]
    assert sizes(101) == [2, 6, 11, 21, 51]


def test_of_equally_important_tokens_the_first_comes_first():
    assert order(np.array([0.1, 0.5, 0.1, 0.5])).tolist() == [1, 3, 0, 2]
