"""Gradients of what is asked: against finite differences, and R of Chefer et al. by hand."""

import numpy as np
import pytest
import torch
from checkpoints import EACH, make_checkpoint

from attncli import load_model
from attncli.effects.change import Reweigh
from attncli.effects.gradients import input_slopes, slopes
from attncli.effects.question import Asking, make_question
from attncli.models.walk import Beginning, walk

TEXT, STEP = "the cat sat on it", 1e-5


def last_from(text, x):
    with torch.inference_mode():
        *_, last = walk(text.model.network, text.model.rows([text.tokens], text.mask), (), None, Beginning(0, x))
        return last


def scaled(text, place, factor):
    x = text.states[0].clone()
    x[place] *= factor
    return last_from(text, x)


@pytest.mark.parametrize("family", EACH)
def test_gradient_x_input_is_the_slope_along_the_token(tmp_path, family):
    model = load_model(str(make_checkpoint(tmp_path, family, head="ForSequenceClassification")), "cpu", "float64")
    question = make_question(model, TEXT, Asking(ask="logit", target="LABEL_1"))
    [text], found = question.texts, slopes(question).inputs
    for place in range(len(text.tokens)):
        more, less = (float(question([scaled(text, place, 1 + side * STEP)[None]])[0]) for side in (1, -1))
        assert found[place] == pytest.approx((more - less) / (2 * STEP), rel=1e-4, abs=1e-7)


def test_the_slopes_of_a_distance_are_how_far_vectors_begin_to_move(tiny):
    model = load_model(str(tiny("bert")), device="cpu", dtype="float64")
    question = make_question(model, TEXT, Asking())
    [text], found = question.texts, input_slopes(question.texts[0])
    for place in range(len(text.tokens)):
        moved = float(question([scaled(text, place, 1 - STEP)[None]])[0])
        assert found[place] == pytest.approx(moved / STEP, rel=1e-3)


def test_relevance_is_made_of_weights_and_their_slopes(tiny):
    """The gradient by each weight of the last layer, found by a small change of that weight alone."""
    model = load_model(str(tiny("bert", head="ForSequenceClassification")), device="cpu", dtype="float64")
    question = make_question(model, "the cat", Asking(ask="logit", target="LABEL_1"))
    count, layers, heads = len(question.texts[0].tokens), 4, 4
    every, kept = [], {}
    for layer in range(layers):
        for head in range(heads):
            for row in range(count):
                for key in range(count):

                    def more(heads, weights, row=row, key=key):
                        kept[heads.layer, heads.numbers[0]] = weights[0, 0].clone()
                        changed = weights.clone()
                        changed[..., row, key] += STEP
                        return changed

                    every.append(Reweigh([(layer, head)], more))
    found = torch.from_numpy(question.effects(every)) / STEP
    gradients = found.reshape(layers, heads, count, count)
    weights = torch.stack([torch.stack([kept[layer, head] for head in range(heads)]) for layer in range(layers)])
    by_hand = np.eye(count)
    for layer in range(layers):
        grown = np.maximum(0, (weights[layer] * gradients[layer]).numpy()).mean(axis=0)
        by_hand = by_hand + grown @ by_hand
    np.testing.assert_allclose(slopes(question).relevance, by_hand, rtol=1e-3, atol=1e-6)
