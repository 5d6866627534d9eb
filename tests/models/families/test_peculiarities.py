"""Peculiarities of families: norms first, EuroBERT, ModernBERT and the first DeBERTa."""

import json

import pytest
import torch
from checkpoints import MERGES, byte_vocabulary, edit_config, make_checkpoint, make_config, make_network
from walks import CPU, made_up, network_of, walked

from attncli import load_model
from attncli.models.config import ModelConfig
from attncli.models.families.family import Turned
from attncli.models.head import one_head
from attncli.models.transformers_peer import load_reference
from attncli.text.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("exact")

# --- norms first -----------------------------------------------------------------------------------------


NORMALISED = {"megatron-bert": False, "xlm-roberta-xl": False, "roberta-prelayernorm": True}


@pytest.mark.parametrize("family", NORMALISED)
def test_what_goes_into_the_first_layer(family):
    """The sum of the tables, normalised or not; the last state is normalised, and those between are not."""
    network = network_of(make_network(make_config(family)), torch.float64)
    ids = [5, 6, 7, 8]
    [states] = walked(network, [made_up(ids)], whole=True).states
    embeddings = network.embeddings
    first = 0 if network.config.padding_position is None else network.config.padding_position + 1
    table = embeddings.positions.table.weight[first : first + 4]
    total = embeddings.tokens.weight[ids] + embeddings.segments.weight[0] + table
    if NORMALISED[family]:
        total = embeddings.norm(total)
    else:
        assert not list(embeddings.norm.parameters())
    torch.testing.assert_close(states[0], total)
    back = (states[-1] - network.final_norm.bias) / network.final_norm.weight
    torch.testing.assert_close(back.mean(dim=-1), torch.zeros(4).double())
    assert (states[1:-1].mean(dim=-1).abs() > 1e-3).any()


# --- EuroBERT --------------------------------------------------------------------------------------------


def test_a_pad_that_ends_texts_too_is_told_by_its_place(tmp_path):
    """Use the published [PAD], which is also the token at the end, and real there."""
    directory = make_checkpoint(tmp_path / "euro", "eurobert", pad_token_id=0)
    edit_config(directory, pad_token_id=2)
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": "<|end_of_text|>"}))
    model = load_model(str(directory), device="cpu")
    whole, padded = (model.tokenizer.encode("the cat", pad_to=count) for count in (None, 14))
    assert whole.text[-1] == padded.text[-1] == "<|end_of_text|>"
    assert not any(whole.padding) and padded.padding == [False] * len(whole) + [True] * (14 - len(whole))
    reference = load_reference(directory, CPU, torch.float32)
    theirs, _ = reference.run(padded, "padding")
    record = model.attend("the cat", layers="all", pad_to=14)
    torch.testing.assert_close(torch.from_numpy(record.weights), torch.stack(theirs), rtol=0, atol=1e-5)


def test_a_head_taken_apart_says_who_shares_its_keys(tiny):
    model = load_model(str(tiny("eurobert")), device="cpu")
    heads = [one_head(model, model.tokenizer.encode("the cat sat"), 1, head, "padding") for head in range(4)]
    assert [one.group for one in heads] == [range(2), range(2), range(2, 4), range(2, 4)]
    assert (heads[2].key == heads[3].key).all() and (heads[2].value == heads[3].value).all()
    assert abs(heads[1].key - heads[2].key).max() > 0.1 and abs(heads[2].query - heads[3].query).max() > 0.1


# --- ModernBERT ------------------------------------------------------------------------------------------


MODERNBERT = {
    "model_type": "modernbert",
    "num_hidden_layers": 7,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
}


def of_modernbert(**changes):
    return ModelConfig.from_dict({**MODERNBERT, **changes})


def test_what_a_file_of_before_transformers_5_says():
    config = of_modernbert(position_embedding_type="sans_pos", local_attention=128)
    assert config.reach == (None, 64, 64, None, 64, 64, None)
    assert [one.base for one in config.positions] == [1.6e5, 1e4, 1e4, 1.6e5, 1e4, 1e4, 1.6e5]
    assert {one.rotated for one in config.positions} == {64} and not config.positions[0].interleaved
    assert not any(config.biases) and not config.first_norm and config.norm_first and config.gated
    document = config.document()
    assert (document["positions"], document["window"], document["global_layers"]) == ("rotary", 128, [0, 3, 6])
    assert document["rotary_bases"] == [1e4, 1.6e5]


def test_what_newer_files_say_goes_first():
    kinds = ["sliding_attention", "full_attention"]
    bases = {"sliding_attention": {"rope_theta": 5.0}, "full_attention": {"rope_theta": 7, "rope_type": "default"}}
    config = of_modernbert(num_hidden_layers=2, layer_types=kinds, rope_parameters=bases, local_attention=9)
    assert config.reach == (4, None)
    assert config.positions == (Turned(64, 5.0), Turned(64, 7.0))


# --- DeBERTa ---------------------------------------------------------------------------------------------


DEBERTA = {
    "model_type": "deberta",
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": -1,
    "type_vocab_size": 0,
}


def of_deberta(**changes):
    return ModelConfig.from_dict({**DEBERTA, **changes})


def test_keys_of_version_2_mean_nothing():
    """transformers passes over them."""
    assert of_deberta(position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True) == of_deberta()


def test_its_published_tokenizer(tmp_path):
    """vocab.json and merges.txt with BERT's marks: pairs are as BERT's, and no mark is added to the vocabulary."""
    names = {"<s>": "[CLS]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]", "<pad>": "[PAD]"}
    tokens = [names.get(token, token) for token in byte_vocabulary(0)]
    (tmp_path / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
    tokenizer = Tokenizer.from_directory(tmp_path, 512, len(tokens), 0, None)
    pair = tokenizer.encode("the cat", "on a [MASK]", pad_to=11)
    assert pair.text == ["[CLS]", "the", "Ġcat", "[SEP]", "on", "Ġa", "Ġ", "[MASK]", "[SEP]", "[PAD]", "[PAD]"]
    assert pair.segments == [0] * 4 + [1] * 5 + [0] * 2
    assert [tokens[number] for number in pair.ids] == pair.text
    assert tokenizer.backend.get_vocab_size() == len(tokens)
