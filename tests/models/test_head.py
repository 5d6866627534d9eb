"""One head taken apart: its parts are the model's, and together they are its map."""

import numpy as np
import pytest
from checkpoints import FAMILIES

from attncli import load_model
from attncli.analysis.steps import row_steps
from attncli.models.head import one_head

TEXT = "The trophy does not fit in the suitcase because it is too big."


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_the_parts_lead_to_the_map_that_attend_gives(minilm, mask):
    tokens = minilm.tokenizer.encode(TEXT, None, 18)
    for layer, head in ((0, 2), (3, 1), (5, 11)):
        one = one_head(minilm, tokens, layer, head, mask)
        alone = minilm.attend(TEXT, layers=layer, heads=head, mask=mask, pad_to=18)
        np.testing.assert_array_equal(one.record.weights, alone.weights)
        for place in range(len(tokens)):
            weight = one.record.map(layer, head)[place]
            steps = row_steps(one.query[place], one.key, one.value, one.record.mask[place], weight)
            np.testing.assert_allclose(steps.computed, weight, atol=2e-6)


def test_projections_of_the_input_are_query_key_and_value(minilm):
    tokens = minilm.tokenizer.encode(TEXT)
    one = one_head(minilm, tokens, 4, 7, "padding")
    for name, expected in (("query", one.query), ("key", one.key), ("value", one.value)):
        weight, bias = one.projections[name]
        np.testing.assert_allclose(one.x @ weight.T + bias, expected, atol=2e-5)


def test_the_output_of_all_heads_is_what_transformers_adds(minilm):
    """Σ weight v of every head, side by side, is what BertSelfAttention gives."""
    import torch
    from transformers import BertModel

    tokens = minilm.tokenizer.encode("The cat sat on the mat.")
    bert = BertModel.from_pretrained(minilm.place.path, attn_implementation="eager").eval()
    given = []
    bert.encoder.layer[2].attention.self.register_forward_hook(lambda *parts: given.append(parts[-1][0]))
    with torch.inference_mode():
        bert(torch.tensor([tokens.ids]))
    heads = [one_head(minilm, tokens, 2, head, "padding") for head in range(12)]
    ours = np.concatenate([one.record.weights[0, 0] @ one.value for one in heads], axis=-1)
    np.testing.assert_allclose(ours, given[0][0].numpy(), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_taken_apart(tiny, family):
    model = load_model(str(tiny(family)), device="cpu", dtype="float64")
    tokens = model.tokenizer.encode("the cat sat")
    one = one_head(model, tokens, 1, 1, "padding")
    for place in range(len(tokens)):
        weight = one.record.map(1, 1)[place]
        steps = row_steps(one.query[place], one.key, one.value, one.record.mask[place], weight)
        np.testing.assert_allclose(steps.computed, weight, atol=1e-5)
