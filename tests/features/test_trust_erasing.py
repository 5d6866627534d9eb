"""Deleted tokens: the text is the one that is left, held against transformers, for every question."""

import numpy as np
import pytest
import torch
import transformers
from invented import embedding_model

from attncli import load_model
from attncli.effects.question import Asking, make_question
from attncli.features.trust.erasing import Erasing, leave_one_out, leave_word_out, order, sizes, words

TEXT = "the cat sat on it, the big cat"
QUESTIONS = {
    "ForSequenceClassification": [Asking(ask="logit", target="LABEL_1"), Asking(), Asking(ask="distance")],
    "ForTokenClassification": [Asking(), Asking(ask="probability", target="LABEL_0", at="sat")],
    "ForMaskedLM": [Asking(), Asking(at="sat", ask="logit", target="big")],
    "ForQuestionAnswering": [Asking()],
}


def test_the_number_is_that_of_a_text_without_the_tokens(tiny):
    folder = tiny("bert", head="ForSequenceClassification")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    question = make_question(load_model(str(folder), device="cpu"), TEXT, Asking(ask="logit", target="LABEL_1"))
    ids = question.texts[0].tokens.ids
    sets = [frozenset(some) for some in ([2], [1, 3, 8], range(1, len(ids) - 2))]
    for places, change in zip(sets, Erasing(question).changes(sets), strict=True):
        left = [number for place, number in enumerate(ids) if place not in places]
        with torch.no_grad():
            logit = theirs(torch.tensor([left])).logits[0, 1].item()
        assert question.value - change == pytest.approx(logit, abs=1e-5)


def test_a_word_is_deleted_with_all_of_its_tokens(tiny):
    """ "unable" is two tokens; without it the text is the one that is left. As many others: 20 pairs, or each token."""
    folder = tiny("bert", head="ForSequenceClassification")
    model = load_model(str(folder), device="cpu")
    asking = Asking(ask="logit", target="LABEL_1")
    question = make_question(model, "the unable cat sat", asking)
    erasing = Erasing(question)
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
def test_nothing_deleted_changes_nothing_and_something_does(tiny, head):
    model = load_model(str(tiny("bert", head=head)), device="cpu", dtype="float64")
    for asking in QUESTIONS[head]:
        text = TEXT.replace("big", "[MASK]") if head == "ForMaskedLM" and asking.at is None else TEXT
        question = make_question(model, text, asking)
        erasing = Erasing(question)
        del erasing.known[frozenset()]
        nothing, *some = erasing.changes([frozenset(), *(frozenset([place]) for place in erasing.erasable)])
        assert nothing == pytest.approx(0, abs=1e-9)
        assert np.abs(some).min() > 1e-9 and np.isfinite(some).all()


def test_special_tokens_and_the_one_that_is_asked_at_stay(tiny):
    model = load_model(str(tiny("bert", head="ForMaskedLM")), device="cpu")
    question = make_question(model, "the [MASK] sat", Asking(ask="logit", target="cat"))
    assert Erasing(question).erasable == [1, 3]
    question = make_question(model, "the cat", Asking(ask="distance", pair="it"))
    assert Erasing(question).erasable == [1, 2, 4]


def test_of_two_texts_tokens_of_the_first_are_deleted(tmp_path):
    model = embedding_model(tmp_path / "embedding")
    question = make_question(model, "the cat sat", Asking(similar_to="the big cat"))
    shorter = make_question(model, "the sat", Asking(similar_to="the big cat"))
    assert leave_one_out(Erasing(question))[1] == pytest.approx(question.value - shorter.value, abs=1e-9)


def test_a_distance_is_of_the_tokens_that_are_left(tiny):
    model = load_model(str(tiny("bert")), device="cpu", dtype="float64")
    question = make_question(model, "the cat sat", Asking())
    [change] = Erasing(question).changes([frozenset([2])])
    before = question.texts[0].last[0][[0, 1, 3, 4]]
    after = make_question(model, "the sat", Asking()).texts[0].last[0]
    assert change == pytest.approx(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean().item())


# --- rankings ---------------------------------------------------------------------------------------------


def test_shares_of_the_tokens_are_rounded_up_and_count_once():
    assert sizes(2) == [1]
    assert sizes(10) == [1, 2, 5]
    assert sizes(14) == [1, 2, 3, 7]
    assert sizes(100) == [1, 5, 10, 20, 50]
    assert sizes(101) == [2, 6, 11, 21, 51]


def test_of_equally_important_tokens_the_first_comes_first():
    assert order(np.array([0.1, 0.5, 0.1, 0.5])).tolist() == [1, 3, 0, 2]
