"""Both passes of one text: which layers they are of, and that torch's module has our weights and our masks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli import load_model
from attncli.base import choices
from attncli.checks.passes import Pass, beside_torch, beside_transformers, torch_attention
from attncli.models.transformers_peer import load_reference

MASKS = choices.names(choices.MaskName)


@given(st.lists(st.integers(0, 6), unique=True))
def test_some_rows_of_a_pass_are_those_tokens_of_all_its_parts(rows):
    weights, hidden = torch.rand(2, 3, 7, 7), torch.rand(2, 7, 4)
    some = Pass(list(weights), list(hidden), hidden[0]).only(rows)
    assert all(torch.equal(one, whole[:, rows]) for one, whole in zip(some.weights, weights, strict=True))
    assert all(torch.equal(one, whole[rows]) for one, whole in zip(some.hidden, hidden, strict=True))
    assert torch.equal(some.embeddings, hidden[0][rows])
    assert Pass([], []).only(rows).embeddings is None


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("layers", [[0], [2, 1]])
def test_both_programs_give_the_layers_asked_for_in_their_order(tiny, layers, mask):
    model = load_model(str(tiny()), device="cpu", dtype="float64")
    tokens = model.tokenizer.encode("the cat sat", "on a mat", 12)
    reference = load_reference(model.place.path, model.device, model.dtype)
    expected = model.attend("the cat sat", "on a mat", pad_to=12, mask=mask, layers=layers).weights
    for both in (beside_torch(model, layers, mask), beside_transformers(model, layers, mask, reference)):
        for one in both(tokens)[:2]:
            torch.testing.assert_close(
                torch.stack(list(one.weights)).float(), torch.from_numpy(expected), atol=1e-6, rtol=0
            )
            assert len(one.hidden) == len(layers) and one.hidden[0].shape == (12, model.config.hidden_size)


def test_torch_has_copies_of_the_weights(tiny):
    model = load_model(str(tiny()), device="cpu")
    model.need(1)
    attention = model.network.layer(0).attention
    theirs = torch_attention(attention)
    assert torch.equal(theirs.in_proj_weight.chunk(3)[1], attention.key.weight)
    assert theirs.out_proj.weight.data_ptr() != attention.output.weight.data_ptr()
