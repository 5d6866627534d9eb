"""Precision: rounding is taken for rounding, and a mistake of 2 % for a mistake."""

import json

import pytest
import torch
from checkpoints import compare, load_both
from slow import slow_except

from attncli.models import walk
from attncli.models.block import meet
from attncli.models.transformers_peer import load_reference

SENTENCE = "The trophy does not fit in the suitcase because it is too big."
TEXTS = ["it", "the cat sat on a mat", SENTENCE, f"{SENTENCE} {SENTENCE}"]
HALVES = ("bfloat16", "float16")


def scaled_by(monkeypatch, factor):
    monkeypatch.setattr(walk, "meet", lambda block, *more: meet(block._replace(scale=block.scale * factor), *more))


# --- no false alarms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "family",
    slow_except(["bert", "modernbert", "eurobert", "mpnet", "gte"], ["bert", "modernbert"]),
)
def test_texts_of_all_lengths_are_the_same(tiny, family, dtype):
    model, reference = load_both(tiny(family, max_position_embeddings=160), dtype)
    for text in TEXTS:
        found = compare(model, [model.tokenizer.encode(text)], reference=reference)
        assert found.same, found.verdict
    found = compare(model, [model.tokenizer.encode(text) for text in TEXTS], reference=reference)
    assert found.same and found.hidden_mistakes.startswith(f"{dtype} hides small mistakes: ")


def test_the_errors_are_those_of_an_exact_network(tiny):
    """By hand: the float32 network gets the weights that the half precision network has."""
    model, reference = load_both(tiny(max_position_embeddings=90), "bfloat16")
    tokens = model.tokenizer.encode(SENTENCE)
    found = compare(model, [tokens], reference=reference)
    exact = load_reference(model.place.path, model.device, torch.float32)
    for ours, theirs in zip(exact.network.parameters(), reference.network.parameters(), strict=True):
        ours.data = theirs.data.float()
    wanted, theirs = exact.run(tokens, "padding")[1][3], reference.run(tokens, "padding")[1][3]
    ours = model.hidden_states(tokens)[3]
    size = wanted.abs().amax(dim=-1, keepdim=True).clamp(min=1)  # errors are shares of the largest number of their row
    error = lambda one: ((one.float() - wanted) / size).square().mean().sqrt()  # noqa: E731
    assert found.layers[2].rounding.hidden == pytest.approx(float(error(ours) / error(theirs)), rel=1e-4)


def test_the_angles_of_positions_stay_in_float32_as_in_transformers(tiny):
    """from_pretrained leaves them; rounded to bfloat16, far tokens would be turned by another angle."""
    _, reference = load_both(tiny("modernbert", max_position_embeddings=90), "bfloat16")
    buffers = [one for one in reference.network.buffers() if one.is_floating_point()]
    assert buffers and all(one.dtype == torch.float32 for one in buffers)
    assert {one.dtype for one in reference.network.parameters()} == {torch.bfloat16}


# --- mistakes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_scale_that_is_2_percent_too_large_is_found_in_bfloat16(tiny, family, monkeypatch):
    model, reference = load_both(tiny(family, max_position_embeddings=90), "bfloat16")
    scaled_by(monkeypatch, 1.02)
    found = compare(model, [model.tokenizer.encode(SENTENCE)], reference=reference)
    assert not found.same and "overall" in found.verdict + " ".join(found.faults())


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "factor"), [("bfloat16", 0.98), ("float16", 1.003)])
@pytest.mark.parametrize("against", ["transformers", "torch"])
def test_on_real_weights_a_small_scale_is_found(dtype, factor, against, monkeypatch):
    model, reference = load_both("minilm", dtype)
    other = reference if against == "transformers" else None
    tokens = [model.tokenizer.encode(SENTENCE)]
    before = compare(model, tokens, reference=other)
    assert before.same, before.verdict
    scaled_by(monkeypatch, factor)
    assert not compare(model, tokens, reference=other).same


@pytest.mark.slow
def test_what_is_said_to_show_shows_and_half_of_it_does_not(monkeypatch):
    model, reference = load_both("minilm", "bfloat16")
    tokens = [model.tokenizer.encode(SENTENCE)]
    least = min(layer.rounding.scale_allowed for layer in compare(model, tokens, reference=reference).layers)
    assert f"shows only from {least:.1%} on" in compare(model, tokens, reference=reference).hidden_mistakes
    with monkeypatch.context() as patch:
        scaled_by(patch, 1 + least / 2)
        assert compare(model, tokens, reference=reference).same
    scaled_by(monkeypatch, 1 + 1.2 * least)
    assert not compare(model, tokens, reference=reference).same


@pytest.mark.parametrize("name", ["encoder.layer.1.attention.self.value", "encoder.layer.2.output.dense"])
def test_a_bias_left_out_is_found_in_bfloat16(tiny, name):
    model, reference = load_both(tiny(max_position_embeddings=90), "bfloat16")
    with torch.no_grad():
        reference.network.get_submodule(name).bias.zero_()
    # The reference is wrong in both precisions, so our errors are larger than its own.
    found = compare(model, [model.tokenizer.encode(SENTENCE)], reference=reference)
    assert any(f"layer {name.split('.')[2]} hidden states have errors" in fault for fault in found.faults())


def test_what_is_no_number_is_past_every_ratio(tiny, monkeypatch):
    model, reference = load_both(tiny(max_position_embeddings=90), "bfloat16")
    states = model.hidden_states

    def broken(*arguments):
        made = list(states(*arguments))
        made[2] = made[2] * float("nan")
        return made

    monkeypatch.setattr(model, "hidden_states", broken)
    found = compare(model, [model.tokenizer.encode(SENTENCE)], reference=reference)
    assert "layer 1 hidden states are NaN" in found.faults()
    assert json.loads(json.dumps(found.document(), allow_nan=False))["layers"][1]["rounding"]["hidden"] is None
