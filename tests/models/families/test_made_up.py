"""A family that only its own file knows: everything that is shown of it is what its formula, written out, gives."""

import numpy as np
import pytest
import torch
from made_up_family import FAMILY, LAYERS, REACH, by_hand, made_up_checkpoint

from attncli import Request, RequestError, load_model, load_records
from attncli.models.families import FAMILIES

TEXTS = ["the cat sat on the big cat, too", "it", "un believ able cat on the cat", "a c a"]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "made-up", FAMILY)
    return made_up_checkpoint(tmp_path / "made-up")


@pytest.fixture
def model(directory):
    return load_model(str(directory), device="cpu", dtype="float64")


def allowed(tokens, mask):
    real = torch.tensor([not padding for padding in tokens.padding]).expand(len(tokens), -1)
    everything = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    return {"none": everything, "padding": real, "causal": real.tril()}[mask]


def by_hand_of(tokens, mask="padding"):
    maps, states, brought = by_hand(tokens.ids, allowed(tokens, mask))
    return torch.stack(maps), states, torch.stack(brought)


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weights_and_vectors_are_those_of_the_formula(directory, mask, dtype):
    model = load_model(str(directory), device="cpu", dtype=dtype)
    near = 1e-12 if dtype == "float64" else 2e-5
    texts = [model.tokenizer.encode(text, None, 14 if place == 0 else None) for place, text in enumerate(TEXTS)]
    for tokens, taken in zip(texts, model.take(texts, Request(mask=mask)), strict=True):
        maps, states, _ = by_hand_of(tokens, mask)
        torch.testing.assert_close(taken.weights.double(), maps, atol=near, rtol=0)
        for ours, expected in zip(model.hidden_states(tokens, mask), states, strict=True):
            torch.testing.assert_close(ours.double(), expected, atol=10 * near, rtol=0)


def test_norms_are_of_its_transposed_projection(model):
    tokens = model.tokenizer.encode(TEXTS[0])
    maps, _, brought = by_hand_of(tokens)
    [taken] = model.take([tokens], Request(measure="norm"))
    torch.testing.assert_close(taken.weights, maps * brought.norm(dim=-1)[:, :, None])


def test_a_record_has_the_window_of_every_second_layer(model, tmp_path):
    record = model.attend(TEXTS[0], pad_to=14)
    query, key = np.indices((14, 14))
    real = ~np.array(record.tokens.padding)[None]
    for layer in range(LAYERS):
        seen = real & (np.abs(query - key) <= REACH) if layer % 2 else np.broadcast_to(real, (14, 14))
        assert (record.mask_of(layer) == seen).all()
        assert (record.weights[layer][:, ~seen] == 0).all()
    with pytest.raises(RequestError, match="different masks"):
        _ = record.mask
    record.save(tmp_path / "a.npz")
    [loaded] = load_records(tmp_path / "a.npz")
    assert (loaded.masks == record.masks).all()
    assert (record.select(layers="0,2").mask == real).all()
