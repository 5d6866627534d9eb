"""Patches beside the same done by hooks on transformers' modules."""

import json

import numpy as np
import pytest
from checkpoints import EACH, load_both
from hooks import outputs_put, outputs_seen

from attncli import load_model
from attncli.effects.question import Asking, make_question
from attncli.features.patch import patch
from attncli.models.parts import mask_name
from attncli.models.transformers_peer import load_reference
from attncli.report.parts import signed

A, B = "the cat sat on it, too", "the big sat on a cat"


def relative_distance(one, other):
    """Return the distance of two vectors, as a share of the second's length."""
    return float(((one - other).norm(dim=-1) / other.norm(dim=-1)).mean())


def texts(model):
    """Two texts with as many tokens, whatever its tokenizer makes of them."""
    one = model.tokenizer.encode(A)
    for words in ("the big cat sat", "it sat on the cat", "un", "cat"):
        for count in range(1, len(one)):
            other = f"{words}{' it' * count}"
            if len(model.tokenizer.encode(other)) == len(one):
                return A, other
    raise AssertionError(model.place.name)


@pytest.fixture(scope="module", params=EACH)
def both(request, tiny):
    """Ours in float64, and transformers' network of the same checkpoint."""
    return load_both(tiny(request.param))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("by", ["head", "layer", "token"])
def test_patches_are_those_that_hooks_put(both, by):
    """Layers and heads in another order than the model's."""
    model, reference = both
    a, b = texts(model)
    ours, theirs = model.tokenizer.encode(a), model.tokenizer.encode(b)
    found = patch(model, a, b, by=by, layer="3,1", head="2,0")
    size, mask = model.config.head_dim, mask_name(model, None, None)
    with outputs_seen(reference.network, model) as own:
        before = reference.run(ours, mask)[1][-1]
    with outputs_seen(reference.network, model) as other:
        aim = reference.run(theirs, mask)[1][-1]
    assert found.answer.value == pytest.approx(relative_distance(before, aim)) and found.other == 0

    def patched(heads, token=None):
        outputs = {}
        for layer, head in heads:
            part = slice(head * size, (head + 1) * size)
            outputs[layer, head] = own[layer][:, part].clone()
            rows = slice(None) if token is None else token
            outputs[layer, head][rows] = other[layer][rows, part]
        with outputs_put(reference.network, model, outputs):
            return relative_distance(reference.run(ours, mask)[1][-1], aim) - relative_distance(before, aim)

    if by == "head":
        expected = [[patched([(layer, head)]) for head in (2, 0)] for layer in (3, 1)]
    elif by == "layer":
        expected = [[patched([(layer, 2), (layer, 0)])] for layer in (3, 1)]
    else:
        expected = [[patched([(layer, 2), (layer, 0)], token) for token in range(len(ours))] for layer in (3, 1)]
    np.testing.assert_allclose(found.effects, expected, atol=1e-10)
    assert np.abs(found.effects).max() > 1e-3
    assert found.together == pytest.approx(patched([(layer, head) for layer in (3, 1) for head in (2, 0)]), abs=1e-10)
    np.testing.assert_allclose(found.shares, -found.effects / relative_distance(before, aim))


def test_a_cosine_goes_from_that_of_a_to_that_of_b_and_the_other_text_stays(minilm):
    """The output of B is that of B by itself; a patch is of the first text alone."""
    a, b, asking = "The cat sat on the mat.", "The dog sat on the mat.", Asking(similar_to="A dog is resting.")
    found = patch(minilm, a, b, similar_to=asking.similar_to, layer="5", head="11")
    assert found.answer.value == pytest.approx(make_question(minilm, a, asking).value)
    assert found.other == pytest.approx(make_question(minilm, b, asking).value)
    reference = load_reference(minilm.place.path, minilm.device, minilm.dtype)
    with outputs_seen(reference.network, minilm) as other:
        reference.run(found.other_tokens, "padding")
    with outputs_put(reference.network, minilm, {(5, 11): other[5][:, 32 * 11 :]}):
        last = reference.run(found.tokens, "padding")[1][-1]
    question = make_question(minilm, a, asking)
    expected = float(question([last[None], question.texts[1].last])[0])
    assert found.effects[0, 0] == pytest.approx(expected - question.value, abs=1e-5)
    assert found.shares[0, 0] == pytest.approx((expected - question.value) / (found.other - question.value), 1e-4)
    assert found.effects[0, 0] > 0.01


def test_a_prediction_is_measured_from_that_of_b_where_a_has_its_mask(tiny):
    """Whatever B has there; the probability of a word there is asked of both."""
    model = load_model(str(tiny("bert", head="ForMaskedLM")), device="cpu", dtype="float64")
    a, b = "the [MASK] sat", "it on cat"
    found = patch(model, a, b, by="layer", layer="3")
    one, other = (
        model.outputs()["words"](
            list(make_question(model, text, Asking(ask="distance")).texts[0].last), [tokens], [[2]]
        )[0]
        for text, tokens in ((a, found.tokens), (b, found.other_tokens))
    )
    aim, start = (logits.log_softmax(-1) for logits in (other, one))
    assert found.answer.value == pytest.approx(float((aim.exp() * (aim - start)).sum())) and found.other == 0
    found = patch(model, a, b, layer="3", target="cat")
    place = model.tokenizer.encode("cat").ids[1]
    assert found.other == pytest.approx(float(aim.exp()[0, place]))
    assert found.answer.value == pytest.approx(float(start.exp()[0, place]))


# --- the command ------------------------------------------------------------------------------------------

CAT, DOG = "The cat sat on the mat.", "The dog sat on the mat."


def test_shares_are_of_the_way_between_the_two_outputs(attncli):
    line = ("patch", "-l", "4,5", "--similar-to", "A dog is resting.", CAT, DOG)
    document = json.loads(attncli(*line, "--json").out)
    way = document["output"]["other"] - document["output"]["value"]
    assert way > 0.1 and len(document["patches"]) == 24
    for one in [*document["patches"], document["together"]]:
        assert one["share"] == pytest.approx(one["effect"] / way)
    shown = attncli(*line, "--top", "1").out
    largest = max(document["patches"], key=lambda one: abs(one["share"]))
    assert (
        f"{document['output']['value']:.4g} for the first text, {document['output']['other']:.4g} for the second"
        in shown
    )
    [row] = [line.split() for line in shown.splitlines() if line.startswith(f" {largest['layer']}.{largest['head']} ")]
    assert row[1:] == [signed(largest["share"]), signed(largest["control"])]
