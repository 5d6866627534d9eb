"""Mistakes in the layer of a real head: without one the formula is the layer, and each does what it is called."""

import json

import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, PECULIAR
from slow import slow_except
from torch import Tensor

from attncli import RequestError, load_model
from attncli.analysis.patterns import total_variation
from attncli.attention.mistakes import MISTAKES
from attncli.features.mechanisms.head import HeadInLayer
from attncli.features.mechanisms.mistakes import formula_of, inputs_of, make_mistakes
from attncli.models.head import one_head
from attncli.models.taps import InputsAndOutputs
from attncli.record import Request

TEXT = "the cat sat on the unbelievable cat"
WITH_TERMS = ("mpnet", "deberta", "deberta-v2")
NORMED = ("qwen3", "olmo2", "gemma3_text")
ONE_LAYER_EACH = slow_except(FAMILIES, PECULIAR)
# What a text without [PAD] under the padding mask does not show.
UNSEEN = {
    "-inf after softmax",
    "hidden keys keep weight",
    "mask of another text",
    "mask after softmax",
    "mask instead of causality",
    "mask multiplied",
    "mask never used",
    "-1e9 in half precision",
    "fully masked rows uniform",
    "no maximum subtracted",
    "[PAD] hidden as query",
    "causal off by one",
    "causal hides itself",
    "causal the wrong way",
    "dropout left on",
    "memory ignored",
    "key heads in the wrong order",
    "mask inverted",
}
WITH_PAD = {
    "-inf after softmax",
    "hidden keys keep weight",
    "mask after softmax",
    "mask multiplied",
    "mask never used",
    "[PAD] hidden as query",
    "mask inverted",
}
WITH_CAUSAL = {one for one in UNSEEN if one.startswith("causal")} | WITH_PAD - {
    "mask never used",
    "[PAD] hidden as query",
}


@pytest.fixture(scope="module")
def small(tiny):
    return load_model(str(tiny("bert")), device="cpu")


def head_of(model, mask="padding", pad_to=None, layer=1, head=2):
    return one_head(model, model.tokenizer.encode(TEXT, None, pad_to), layer, head, mask)


def by_name(found):
    return {one.mistake.name: one for one in found.made}


def names_shown(found):
    return {one.mistake.name for one in found.made if one.moved is not None}


def output_of(model, head) -> Tensor:
    """Return the output of the layer's attention in the model's own walk, `[token, hidden_size]`."""
    kept, [layer] = InputsAndOutputs(), head.record.layers
    with torch.inference_mode():
        list(model.take([head.record.tokens], Request("all", mask=head.record.mask_name), [kept]))
        return kept.attended(layer, model.network.layer(layer).attention)


@pytest.mark.parametrize(("mask", "pad_to"), [("padding", None), ("padding", 38), ("causal", 38), ("none", 38)])
@pytest.mark.parametrize("family", ONE_LAYER_EACH)
def test_without_a_mistake_it_is_the_layer(tiny, family, mask, pad_to):
    model = load_model(str(tiny(family)), device="cpu")
    for layer in range(model.config.layers):
        head = head_of(model, mask, pad_to, layer, layer)
        inside = HeadInLayer.of(model, head)
        if family in (*WITH_TERMS, *NORMED):
            what = "positions add terms to it" if family in WITH_TERMS else "queries and keys are normalised"
            with pytest.raises(RequestError, match=f"{what} in {family}"):
                make_mistakes(model, head)
            continue
        inputs = inputs_of(model, head, inside)
        formula = formula_of(model, inside)
        with torch.inference_mode():
            right = formula(inputs)
        allowed = formula.mask(inputs.seen, *inside.mask.shape)
        everything = torch.ones_like(inside.mask)
        assert torch.equal(
            (everything if allowed is None else allowed).expand(1, 1, *inside.mask.shape)[0, 0], inside.mask
        )
        np.testing.assert_allclose(right.weights[0, layer], head.record.map(layer, layer), atol=1e-6)
        torch.testing.assert_close(right.output[0], output_of(model, head), atol=1e-4, rtol=1e-4)


def test_a_layer_that_turns_values_is_refused(tiny):
    model = load_model(str(tiny("roformer", rotary_value=True)), device="cpu")
    with pytest.raises(RequestError, match=r"--mistakes .* roformer: use another model") as caught:
        make_mistakes(model, head_of(model))
    assert "\n" not in str(caught.value) and len(str(caught.value)) <= 300


def test_all_are_there_and_what_does_not_show_says_what_it_takes(small):
    found = make_mistakes(small, head_of(small))
    assert [one.mistake for one in found.made] == list(MISTAKES)
    assert {one.name for one in MISTAKES} - names_shown(found) == UNSEEN
    assert all(one.mistake.needs for one in found.made if one.moved is None)
    assert all(one.moved.shows for one in found.made if one.moved is not None)


def test_what_needs_a_mask_shows_with_one(small):
    plain = names_shown(make_mistakes(small, head_of(small)))
    assert names_shown(make_mistakes(small, head_of(small, pad_to=38))) - plain == WITH_PAD
    assert names_shown(make_mistakes(small, head_of(small, "causal"))) - plain == WITH_CAUSAL


def test_shared_keys_show_the_order_of_key_heads(tiny):
    model = load_model(str(tiny("eurobert")), device="cpu")
    found = by_name(make_mistakes(model, head_of(model)))
    assert found["key heads in the wrong order"].moved is not None


def test_each_map_is_that_of_its_mistake(small):
    """By hand, of the queries and keys that the model's record has."""
    head = head_of(small, "causal")
    found = by_name(make_mistakes(small, head))
    query, key = torch.from_numpy(head.query), torch.from_numpy(head.key)
    heads, d_k = small.config.heads, query.shape[-1]
    future = torch.ones(len(query), len(key), dtype=torch.bool).triu(1)

    def soft(scores, hidden=future, dim=-1):
        return torch.softmax(scores.masked_fill(hidden, -torch.inf), dim).nan_to_num(0.0)

    right = query @ key.T / d_k**0.5
    expected = {
        "no scale": soft(query @ key.T),
        "scale by d_model": soft(query @ key.T / (heads * d_k) ** 0.5),
        "scale without root": soft(query @ key.T / d_k),
        "softmax over queries": soft(right, dim=0),
        "mask after softmax": torch.softmax(right, -1) * ~future,
        "mask multiplied": torch.softmax(right * ~future, -1),
        "q and k swapped": soft(right.T),
        "causal off by one": soft(right, future.triu(2)),
        "causal hides itself": soft(right, torch.ones_like(future).triu()),
        "causal the wrong way": soft(right, torch.ones_like(future).tril(-1)),
        "mask inverted": soft(right, ~future),
    }
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name].weights, weights, atol=1e-6, err_msg=name)
        moved = total_variation(weights.numpy(), head.record.map(1, 2)).mean()
        assert found[name].moved.own == pytest.approx(moved, abs=1e-6), name
    for name in ("keys as values", "values not projected", "no W_O", "heads joined in the wrong order"):
        moved = found[name].moved
        assert moved.own == 0 and not any(moved.others) and moved.output > 0.1


def test_rows_of_pad_do_not_count(small):
    head = head_of(small, pad_to=38)
    found = by_name(make_mistakes(small, head))["scale without root"]
    real = ~np.array(head.record.tokens.padding)
    moved = total_variation(found.weights[real], head.record.map(1, 2)[real]).mean()
    assert found.moved.own == pytest.approx(moved, abs=1e-6)
    assert found.moved.own != pytest.approx(total_variation(found.weights, head.record.map(1, 2)).mean(), abs=1e-4)


def test_the_change_of_the_output_is_that_of_the_layer_s(small):
    head = head_of(small, pad_to=38)
    found = by_name(make_mistakes(small, head))
    attention, real = small.network.layer(1).attention, ~torch.tensor(head.record.tokens.padding)
    kept = InputsAndOutputs()
    with torch.inference_mode():
        list(small.take([head.record.tokens], Request("all"), [kept]))
        joined = attention.join_heads(kept.kept[1][0][None])[0]
    output = kept.attended(1, attention)
    changed = (joined - output)[real].norm() / output[real].norm()
    assert found["no W_O"].moved.output == pytest.approx(float(changed), rel=1e-4)


def test_the_controls(small):
    """Other heads' figures are theirs, and in the control each head has another's map."""
    found = by_name(make_mistakes(small, head_of(small)))["no scale"].moved
    theirs = [by_name(make_mistakes(small, head_of(small, head=head)))["no scale"].moved.own for head in (0, 1, 3)]
    assert found.others == pytest.approx(theirs, abs=1e-6)
    assert found.of_others == pytest.approx(np.mean(theirs), abs=1e-6)
    exchanged = make_mistakes(small, head_of(small)).exchanged
    maps = small.attend(TEXT).weights[1]
    moved = [total_variation(maps[other], maps[2]).mean() for other in (0, 1, 3)]
    assert exchanged.own == pytest.approx(np.mean(moved), abs=1e-6)
    assert 0 < exchanged.output < 3


def test_one_head_has_no_control(tiny):
    model = load_model(str(tiny("bert", num_attention_heads=1)), device="cpu")
    found = make_mistakes(model, head_of(model, head=0))
    assert found.exchanged is None and found.document()["exchanged"] is None
    hidden = {one.name for one in MISTAKES} - names_shown(found)
    several = {one.name for one in MISTAKES if one.needs == "several heads"}
    assert hidden - UNSEEN == several
    assert all(one["others_moved"] is None for one in found.document()["made"])


def test_what_becomes_no_number_is_null(tiny):
    model = load_model(str(tiny("bert")), device="cpu")
    head = head_of(model)
    with torch.inference_mode():
        model.network.layer(1).attention.query.weight.mul_(300)
    found = make_mistakes(model, head)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    [made] = [one for one in document["made"] if one["name"] == "no maximum subtracted"]
    assert by_name(found)["no maximum subtracted"].moved is not None
    assert made["moved"] is None and made["output"] is None
    assert any(weight is None for row in made["weights"] for weight in row)
