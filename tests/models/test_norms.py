"""Norms of weight times transformed value: transformers' own tensors, contracted by hand."""

import numpy as np
import pytest
import torch
from checkpoints import EVERY

from attncli import Request, load_model
from attncli.base.errors import RequestError

TEXT = "The trophy does not fit in the suitcase."


def norms(model, tokens, layers="all", heads="all", mask="padding"):
    return next(model.attend_tokens([tokens], Request(layers, heads, mask, measure="norm")))


def test_they_are_those_of_transformers_tensors(minilm):
    """‖α_qk v_k W_O‖, from transformers' weights, hidden states and parameters, one cell at a time."""
    from transformers import BertModel

    tokens = minilm.tokenizer.encode(TEXT)
    theirs = BertModel.from_pretrained(minilm.place.path, attn_implementation="eager").eval()
    theirs.requires_grad_(False)
    with torch.no_grad():
        given = theirs(torch.tensor([tokens.ids]), output_attentions=True, output_hidden_states=True)
    record = norms(minilm, tokens)
    for layer, head in ((0, 0), (2, 7), (5, 11)):
        attention = theirs.encoder.layer[layer].attention
        part = slice(32 * head, 32 * head + 32)
        value = attention.self.value(given.hidden_states[layer][0])[:, part]
        projection = attention.output.dense.weight[:, part]
        for query in range(0, len(tokens), 3):
            for key in range(len(tokens)):
                weight = given.attentions[layer][0, head, query, key]
                wanted = (weight * projection @ value[key]).norm().item()
                assert record.map(layer, head)[query, key] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("family", EVERY)
def test_what_they_are_norms_of_adds_up_to_what_attention_gives(tiny, family):
    """Σ_head Σ_key α f(x) + b_O is the attention's output; here of a token that may look at itself alone: α is 1."""
    model = load_model(str(tiny(family)), device="cpu", dtype="float64")
    tokens = model.tokenizer.encode("The cat sat.")
    record = norms(model, tokens, mask="causal")
    states = model.hidden_states(tokens, "causal")
    for layer in record.layers:
        attention = model.network.layer(layer).attention
        x = model.network.layer(layer).before(states[layer])[None, :1]
        with torch.inference_mode():
            bias = attention.output.bias
            brought = attention.forward(x).output[0, 0] - (0 if bias is None else bias)
        norms_there = [float(record.map(layer, head)[0, 0]) for head in record.heads]
        alone = [part_of(attention, x, head).norm().item() for head in record.heads]
        np.testing.assert_allclose(norms_there, alone, rtol=1e-5)
        together = sum(part_of(attention, x, head) for head in record.heads)
        np.testing.assert_allclose(together, brought, atol=1e-9)


def part_of(attention, x, head):
    """Return the contribution of one head to the output of `forward` for one token: its own columns of W_O."""
    part = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    with torch.inference_mode():
        value = attention.project(x)[2][0, head, 0]
        return value @ attention.output.weight[:, part].T


def test_norms_have_no_queries_and_keys(minilm):
    with pytest.raises(RequestError, match="belong to weights, not norms"):
        minilm.attend(TEXT, vectors="0.0", measure="norm")
