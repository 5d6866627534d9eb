"""Networks in which tokens of some layers meet in another way than by attention."""

import numpy as np
import pytest
import torch
import transformers
from foreign_checkpoints import TEXT, make_foreign
from nearness import eager, same_weights

import attncli
from attncli import RequestError, load_model
from attncli.features.cut import EdgeCutter
from attncli.features.inputs import AskedRun


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """LFM2: layers 1 and 3 have attention, 0 and 2 convolutions."""
    folder = make_foreign(tmp_path_factory.mktemp("lfm2"), "llama")
    vocab_size = transformers.AutoConfig.from_pretrained(folder).vocab_size
    config = transformers.Lfm2Config(
        vocab_size=vocab_size, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, block_dim=32, block_ff_dim=64, full_attn_idxs=[1, 3], initializer_range=0.3,
        max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.Lfm2ForCausalLM(config).save_pretrained(folder)
    return load_model(str(folder), "cpu")


def test_layers_keep_their_numbers_and_the_rest_is_refused(model):
    record = model.attend(TEXT)
    assert record.layers == [1, 3] and record.model.layers == 4
    ids = torch.tensor([record.tokens.ids])
    with torch.inference_mode(), eager(model) as network:
        theirs = [one for one in network(ids, output_attentions=True).attentions if one is not None]
    assert same_weights(record.weights, torch.cat(theirs))
    with pytest.raises(RequestError, match=r"layer 2 of .* has no attention: select from 1,3"):
        model.attend(TEXT, layers=2)


def test_what_counts_every_layer_says_so(model):
    with pytest.raises(RequestError, match=r"stats needs the attention of every layer, but .* only in 1,3"):
        attncli.corpus_statistics(model, [TEXT])


def test_silencing_a_head_is_zeroing_its_columns(model):
    question = {"target": model.outputs()["next"].labels[70], "ask": "logit"}
    found = attncli.ablate(model, TEXT, layer=3, head=2, **question)
    weight = model.network.model.layers[3].self_attn.out_proj.weight
    kept = weight.clone()
    try:
        weight[:, 16:24] = 0
        after = attncli.ablate(model, TEXT, **question).answer
    finally:
        weight.copy_(kept)
    assert after.about == found.answer.about and abs(found.effects.item()) > 1e-3
    assert np.isclose(found.effects.item(), after.value - found.answer.value, atol=1e-5)


def test_an_edge_can_matter_through_layers_without_attention(model):
    """A convolution above brings a token's neighbours to it."""
    cutter = EdgeCutter.of(AskedRun.of(model, TEXT), [1], None, keep_rest=False)
    found = attncli.cut(model, TEXT, layer=1)
    moved = np.nan_to_num(np.abs(found.effects)) > 0
    assert cutter.can_matter.sum() > len(cutter.record.tokens)
    assert not (moved & ~cutter.can_matter).any() and moved[:-1].any()
