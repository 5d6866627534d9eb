"""Erased tokens: the text is the one that is left, held against transformers, for every question."""

import numpy as np
import pytest
import torch
import transformers
from invented import embedding_model

from attncli import load_model
from attncli.effects.asking import Asking, question
from attncli.effects.trust.erasing import DELETED, MASKED, Erasing, leave_one_out, ways

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
    asked = question(model, TEXT, Asking(kind="logit", target="LABEL_1"))
    ids = asked.texts[0].tokens.ids
    sets = [frozenset(some) for some in ([2], [1, 3, 8], range(1, len(ids) - 2))]
    mask = model.tokenizer.backend.token_to_id("[MASK]")
    for places, change in zip(sets, Erasing(asked, way).changes(sets), strict=True):
        if way == MASKED:
            left = [mask if place in places else number for place, number in enumerate(ids)]
        else:
            left = [number for place, number in enumerate(ids) if place not in places]
        with torch.no_grad():
            logit = theirs(torch.tensor([left])).logits[0, 1].item()
        assert asked.value - change == pytest.approx(logit, abs=1e-5)


@pytest.mark.parametrize("head", QUESTIONS)
def test_nothing_erased_changes_nothing_and_something_does(tiny, head):
    model = load_model(str(tiny("bert", head=head)), device="cpu", dtype="float64")
    for asking in QUESTIONS[head]:
        text = TEXT.replace("big", "[MASK]") if head == "ForMaskedLM" and asking.at is None else TEXT
        asked = question(model, text, asking)
        for way in ways(model):
            erasing = Erasing(asked, way)
            del erasing.known[frozenset()]
            nothing, *some = erasing.changes([frozenset(), *(frozenset([place]) for place in erasing.erasable)])
            assert nothing == pytest.approx(0, abs=1e-9)
            assert np.abs(some).min() > 1e-9
            assert np.isfinite(some).all()


def test_special_tokens_and_the_one_that_is_asked_at_stay(tiny):
    model = load_model(str(tiny("bert", head="ForMaskedLM")), device="cpu")
    asked = question(model, "the [MASK] sat", Asking(kind="logit", target="cat"))
    assert Erasing(asked, DELETED).erasable == [1, 3]
    asked = question(model, "the cat", Asking(kind="distance", pair="it"))
    assert Erasing(asked, DELETED).erasable == [1, 2, 4]


def test_of_two_texts_tokens_of_the_first_are_erased(tmp_path):
    model = embedding_model(tmp_path / "embedding")
    asked = question(model, "the cat sat", Asking(similar_to="the big cat"))
    shorter = question(model, "the sat", Asking(similar_to="the big cat"))
    assert leave_one_out(Erasing(asked, DELETED))[1] == pytest.approx(asked.value - shorter.value, abs=1e-9)
    masked = question(model, "the [MASK] sat", Asking(similar_to="the big cat"))
    assert leave_one_out(Erasing(asked, MASKED))[1] == pytest.approx(asked.value - masked.value, abs=1e-9)


@pytest.mark.parametrize("way", [MASKED, DELETED])
def test_a_distance_is_of_the_tokens_that_are_left(tiny, way):
    model = load_model(str(tiny("bert")), device="cpu", dtype="float64")
    asked = question(model, "the cat sat", Asking())
    [change] = Erasing(asked, way).changes([frozenset([2])])
    without = question(model, "the [MASK] sat" if way == MASKED else "the sat", Asking()).texts[0].last[0]
    before = asked.texts[0].last[0][[0, 1, 3, 4]]
    after = without[[0, 1, 3, 4]] if way == MASKED else without
    assert change == pytest.approx(((after - before).norm(dim=-1) / before.norm(dim=-1)).mean().item())


def test_without_a_mask_token_tokens_are_only_deleted(tiny, monkeypatch):
    model = load_model(str(tiny("bert")), device="cpu")
    assert ways(model) == [MASKED, DELETED]
    monkeypatch.setattr("attncli.effects.trust.erasing.MASKS", ("[GAP]",))
    assert ways(model) == [DELETED]
