"""Texts put to outputs: their numbers, the answers among them, and gradients through them."""

import numpy as np
import pytest
import torch
from checkpoints import EACH

from attncli import RequestError
from attncli.models.answers import Prediction, spans
from attncli.models.block import Tap
from attncli.models.loading import load_model

LABELS = {0: "O", 1: "B-LOC", 2: "I-LOC"}


def test_one_label_of_several_is_right(loaded):
    model = loaded("bert", "ForSequenceClassification", id2label=LABELS)
    made = model.predict("the cat", "it sat")
    assert (made.kind, made.labels) == ("classes", ["O", "B-LOC", "I-LOC"])
    assert made.probabilities.sum() == pytest.approx(1)
    said = model.attend("the cat", "it sat", predict=True).prediction
    assert [one.label for one in said.answers] == [made.labels[place] for place in np.argsort(-made.values)]
    assert [one.probability for one in said.answers] == pytest.approx(
        sorted(made.probabilities, reverse=True), abs=1e-5
    )
    assert said.single and all(one.start is one.end is None for one in said.answers)


def test_each_label_may_be_right(loaded):
    made = loaded("bert", "ForSequenceClassification", num_labels=3, problem_type="multi_label_classification").predict(
        "the cat"
    )
    np.testing.assert_allclose(made.probabilities, 1 / (1 + np.exp(-made.values)), rtol=1e-6)


@pytest.mark.parametrize("changes", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "regression"}])
def test_a_regression_has_a_number_and_no_probability(changes, loaded):
    model = loaded("bert", "ForSequenceClassification", **changes)
    made = model.predict("the cat")
    assert made.probabilities is None and len(made.values) == changes["num_labels"]
    answers = model.attend("the cat", predict=True).prediction.answers
    assert {one.probability for one in answers} == {None}
    assert answers[0].logit == pytest.approx(float(made.values.max()), abs=1e-5)


def test_labels_of_tokens(loaded):
    model = loaded("bert", "ForTokenClassification", id2label=LABELS)
    record = model.attend("the unbelievable cat", pad_to=12, predict=True)
    made = model.predict("the unbelievable cat", pad_to=12)
    assert made.values.shape == (12, 3)
    answers = record.prediction.answers
    assert [one.start for one in answers] == [place for place in range(12) if not record.tokens.special[place]]
    for one in answers:
        assert one.label == made.labels[made.values[one.start].argmax()] and one.end == one.start + 1


def test_words_for_every_mask_and_none_without(loaded):
    model = loaded("bert", "ForMaskedLM")
    made = model.predict("the [MASK] sat [MASK]")
    answers = model.attend("the [MASK] sat [MASK]", predict=True).prediction.answers
    assert [one.start for one in answers] == [2, 2, 2, 4, 4, 4]
    for one in answers[::3]:
        assert one.label == made.labels[made.values[one.start].argmax()]
        assert one.probability == pytest.approx(float(made.probabilities[one.start].max()), rel=1e-5)
    assert model.attend("the cat sat", predict=True).prediction is None


def test_some_tokens_are_asked_alone(loaded):
    model = loaded("bert", "ForMaskedLM", "float64")
    texts = [model.tokenizer.encode(text) for text in ("the [MASK] sat", "it [MASK] [MASK]")]
    words, hidden = model.outputs()["words"], model.last_hidden(texts)
    every, some = words(hidden, texts), words(hidden, texts, rows=[[2], [3, 2]])
    torch.testing.assert_close(some[0], every[0][[2]])
    torch.testing.assert_close(some[1], every[1][[3, 2]])
    classes = loaded("bert", "ForSequenceClassification", id2label=LABELS).outputs()["classes"]
    with pytest.raises(ValueError, match="about a text"):
        classes(hidden, texts, rows=[[0], [0]])


def test_a_span_is_the_best_of_the_second_text(loaded):
    """By trying all."""
    model = loaded("bert", "ForQuestionAnswering")
    tokens = model.tokenizer.encode("the big cat", "it sat on the unbelievable cat, too")
    made = model.predict("the big cat", "it sat on the unbelievable cat, too")
    inside = [at for at in range(len(tokens)) if tokens.segments[at] == 1 and not tokens.special[at]]
    likely = np.exp(made.values[inside].astype(np.float64))
    likely /= likely.sum(axis=0)
    np.testing.assert_allclose(made.probabilities.sum(axis=0), 1, rtol=1e-5)  # of all tokens, a start and an end
    tried = {
        (inside[one], inside[other] + 1): likely[one, 0] * likely[other, 1]
        for one in range(len(inside))
        for other in range(one, len(inside))
    }
    best = sorted(tried, key=tried.get, reverse=True)[:3]
    answers = model.attend("the big cat", "it sat on the unbelievable cat, too", predict=True).prediction.answers
    assert [(one.start, one.end) for one in answers] == best
    assert [one.probability for one in answers] == pytest.approx([tried[place] for place in best], rel=1e-5)
    assert all(one.label.replace(" ", "") in "itsatontheunbelievablecat,too" for one in answers)


def test_the_words_of_a_span_are_written_as_in_the_text(minilm):
    tokens = minilm.tokenizer.encode("who?", "The cat, unbelievably, sat.")
    values = np.zeros((len(tokens), 2), np.float32)
    places = {token: at for at, token in enumerate(tokens.text)}
    values[places["cat"], 0] = values[places["sat"], 1] = 9
    [first, *_] = spans(Prediction("span", "span", ["start", "end"], values, None), tokens)
    assert first.label == "cat, unbelievably, sat"


def test_what_is_too_large_is_refused(loaded):
    model = loaded("bert", "ForSequenceClassification", id2label=LABELS)
    model.outputs()["classes"].network.scores.weight.fill_(1e38)
    with pytest.raises(RequestError, match="too large for float32"):
        model.predict("the cat")
    with pytest.raises(RequestError, match="too large for float32"):
        model.attend("the cat", predict=True)


def test_what_a_record_holds_is_what_predict_says_under_its_mask(loaded):
    model = loaded("bert", "ForSequenceClassification", id2label=LABELS)
    for mask in ("padding", "causal", "none"):
        record = model.attend("the cat", pad_to=9, layers=0, heads=1, mask=mask, predict=True)
        made = model.predict("the cat", mask=mask, pad_to=9)
        assert max(one.logit for one in record.prediction.answers) == pytest.approx(float(made.values.max()), abs=1e-5)
        plain = model.attend("the cat", pad_to=9, layers=0, heads=1, mask=mask)
        assert plain.prediction is None
        np.testing.assert_allclose(plain.weights, record.weights, atol=1e-6)


# --- gradients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", EACH)
def test_gradients_reach_a_gate_and_are_finite_differences(family, loaded):
    """Take the gradient of the sum of logits by a factor on one head's output, with [PAD] and a window."""
    model = loaded(family, "ForSequenceClassification", "float64", num_labels=3)
    texts = [model.tokenizer.encode("the cat sat on"), model.tokenizer.encode("it", "the big cat", pad_to=20)]

    def logits(factor: torch.Tensor) -> torch.Tensor:
        class Scaled(Tap):
            def output(self, block, output):
                chosen = torch.tensor([(block.layer, head) == (1, 2) for head in block.numbers])
                return torch.where(chosen[:, None, None], output * factor, output)

        return torch.stack(model.outputs()["classes"](model.last_hidden(texts, taps=[Scaled()]), texts)).sum()

    gate = torch.ones((), dtype=torch.float64, requires_grad=True)
    with torch.inference_mode():
        low, high = (logits(torch.tensor(1 + step, dtype=torch.float64)) for step in (-1e-5, 1e-5))
        plain = torch.stack(model.outputs()["classes"](model.last_hidden(texts), texts)).sum()
    recorded = logits(gate)
    [gradient] = torch.autograd.grad(recorded, gate)
    assert recorded.item() == pytest.approx(plain.item(), abs=1e-10)
    assert gradient.item() == pytest.approx(float(high - low) / 2e-5, rel=1e-5)


def test_what_was_read_in_inference_mode_has_gradients_later(with_head):
    model = load_model(str(with_head("bert", "ForSequenceClassification", num_labels=3)), "cpu")
    tokens = model.tokenizer.encode("the cat")
    with torch.inference_mode():
        model.outputs()["classes"](model.last_hidden([tokens]), [tokens])
    [hidden] = model.last_hidden([tokens])
    hidden = hidden.clone().requires_grad_()
    [logits] = model.outputs()["classes"]([hidden], [tokens])
    [gradient] = torch.autograd.grad(logits.sum(), hidden)
    assert gradient[0].abs().max() > 0 and gradient[1:].abs().max() == 0  # [CLS] is read, and nothing else
