"""Check which question is asked of checkpoints with several outputs, and that progress is reported meanwhile."""

import warnings
from contextlib import contextmanager

import pytest
import torch
from checkpoints import make_checkpoint
from invented import embedding_model

from attncli import load_model
from attncli.base.errors import Notice, RequestError
from attncli.base.progress import showing
from attncli.effects.question import Asking, make_question
from attncli.features.ablate import ablate
from attncli.features.cut import cut
from attncli.features.patch import patch
from attncli.features.similar import similar
from attncli.features.trust import trust


@pytest.fixture(scope="module")
def saying(tmp_path_factory):
    """`saying(head)`: a small BERT with that head."""
    made = {}

    def load(head):
        if head not in made:
            folder = make_checkpoint(tmp_path_factory.mktemp(head), "bert", head=head)
            made[head] = load_model(str(folder), device="cpu", dtype="float64")
        return made[head]

    return load


def test_the_usual_question(saying, minilm):
    classes, words = saying("ForSequenceClassification"), saying("ForMaskedLM")
    assert make_question(minilm, "a cat").kind == "distance"
    assert make_question(minilm, "a cat", Asking(similar_to="a dog")).kind == "cosine"
    assert make_question(classes, "a cat").kind == "divergence"
    assert make_question(classes, "a cat", Asking(target="label_1")).kind == "probability"
    assert make_question(words, "the cat").kind == "distance"
    assert make_question(words, "the [MASK] sat").kind == "divergence"
    assert make_question(words, "the cat", Asking(target="sat", at="cat")).kind == "probability"
    assert make_question(saying("ForTokenClassification"), "the cat").kind == "divergence"
    assert make_question(saying("ForQuestionAnswering"), "the cat", Asking(pair="it sat")).kind == "divergence"


def test_probabilities_are_those_of_the_output(saying):
    model = saying("ForMaskedLM")
    tokens = model.tokenizer.encode("the [MASK] sat")
    [hidden] = model.last_hidden([tokens])
    [logits] = model.outputs()["words"]([hidden], [tokens])
    place, cat = tokens.text.index("[MASK]"), model.tokenizer.backend.token_to_id("cat")
    question = make_question(model, "the [MASK] sat", Asking(target="cat"))
    assert question.value == pytest.approx(float(logits[place].softmax(-1)[cat]))
    assert make_question(model, "the [MASK] sat", Asking(target="cat", ask="logit")).value == pytest.approx(
        float(logits[place, cat])
    )
    assert question.about == f"probability of cat at token {place} ([MASK])"


def test_divergence_is_zero_without_a_change_and_what_torch_says_with_one(saying):
    for head in ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM"):
        question = make_question(saying(head), "a [MASK]")
        [one] = question.texts
        assert question.value == pytest.approx(0, abs=1e-12)
        other = one.last + 0.3 * torch.randn(
            one.last.shape, generator=torch.Generator().manual_seed(0), dtype=one.last.dtype
        )
        before, after = question.before, question.log_probabilities(other)
        expected = torch.nn.functional.kl_div(after, before, log_target=True, reduction="sum")
        assert float(question([other])[0]) == pytest.approx(float(expected)) and float(expected) > 0


@pytest.mark.parametrize(
    ("head", "asking", "said"),
    [
        ("ForSequenceClassification", Asking(target="LABEL_7"), "there is no label 'LABEL_7': use one such as LABEL_"),
        ("ForSequenceClassification", Asking(ask="logit"), "no label given"),
        ("ForSequenceClassification", Asking(target="LABEL_0", at="cat"), "--at names a token"),
        ("ForTokenClassification", Asking(target="LABEL_0"), "choose one with --at"),
        ("ForQuestionAnswering", Asking(target="cat"), "has no label"),
        ("ForSequenceClassification", Asking(similar_to="a dog"), "has no output 'embedding'"),
        ("ForMaskedLM", Asking(target="cat"), "it predicts only the word at"),
        (None, Asking(ask="cosine"), "a cosine needs two texts"),
        (None, Asking(target="cat"), "predicts nothing for this text"),
        (None, Asking(ask="divergence"), "its files have no output head"),
        (None, Asking(ask="distance", target="x"), "--target has no effect on the distance"),
        (None, Asking(ask="beauty"), "no question 'beauty'"),
        (None, Asking(task="classes"), "has no output 'classes'"),
    ],
)
def test_what_can_not_be_asked(saying, minilm, head, asking, said):
    with pytest.raises(RequestError, match=said):
        make_question(minilm if head is None else saying(head), "the big cat sat", asking)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "token", "said"),
    [
        ("ix", "Ġix", "--target 'ix' is the token ␣ix; write ##ix for the one without a space"),
        ("##ix", "ix", ""),
        ("␣ix", "Ġix", ""),
        (" ix", "Ġix", ""),
        ("Ġix", "Ġix", ""),
        ("damaged", "Ġdamaged", ""),  # there is none without a space
        ("ophones", "ophones", ""),  # there is none after a space
        ("PARIS", "ĠParis", "--target 'PARIS' is the token ␣Paris; write ##PARIS for the one without a space"),
    ],
)
def test_a_target_is_one_token_and_a_notice_offers_the_other(smollm2, target, token, said):
    with warnings.catch_warnings(record=True) as caught:
        question = make_question(smollm2, "The capital", Asking(target=target))
    assert question.label == smollm2.tokenizer.backend.token_to_id(token)
    assert [str(one.message) for one in caught] == ([said] if said else [])
    with warnings.catch_warnings(record=True) as caught:
        assert make_question(smollm2, "The capital", Asking(target=target), quiet=True).label == question.label
    assert not caught


def test_a_target_of_several_tokens_names_them(smollm2, saying):
    with pytest.raises(RequestError, match=r"'xylophones' is 2 tokens \(␣xyl, ophones\): --target names one token"):
        make_question(smollm2, "The capital", Asking(target="xylophones"))
    with pytest.raises(RequestError, match=r"'unable' is 2 tokens \(un, ##able\)"):
        make_question(saying("ForMaskedLM"), "the [MASK] sat", Asking(target="unable"))


def test_a_word_at_the_mask_of_roberta_is_the_one_after_a_space(tmp_path):
    model = load_model(str(make_checkpoint(tmp_path, "roberta", "ForMaskedLM")), device="cpu")
    with pytest.warns(Notice, match="'c' is the token ␣c; write ##c for the one without a space"):
        question = make_question(model, "the<mask>", Asking(target="c"))
    assert question.label == model.tokenizer.backend.token_to_id("Ġc")


# --- progress --------------------------------------------------------------------------------------------


A, B = "the cat sat", "the big sat"
CAUSAL = Asking(mask="causal")
CALLS = {
    "ablate": (lambda model: ablate(model, [A, B], way="zero,resample"), 252, "changes"),
    "similar": (lambda model: similar(model, A, B), 21, "changes"),
    "cut": (lambda model: cut(model, A, mask="causal"), 15, "edges"),
    "patch": (lambda model: patch(model, A, B, by="layer", layer="0,1"), 18, "patches"),
    "trust": (lambda model: trust(model, A, permutations=2, rankings=120), None, "steps"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return embedding_model(tmp_path_factory.mktemp("embedding"))


SLOW = pytest.param("similar", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [SLOW, "ablate", "cut", "patch", "trust"])
def test_as_many_steps_are_told_as_were_announced(model, name):
    call, steps, called = CALLS[name]
    announced, told = [], []

    @contextmanager
    def progress(total, what):
        announced.append((total, what))
        yield lambda: told.append(what)

    with showing(progress):
        call(model)
    [(total, what)] = announced
    assert (total, what) == (len(told), called) and steps in (None, total)
