"""Peculiarities of NomicBERT: files as published, in words and under names of their own."""

import json

import pytest
import torch
from checkpoints import compare, make_checkpoint, make_config, make_network
from safetensors.torch import load_file

from attncli import load_model
from attncli.base.errors import Notice
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoNetwork, Turned
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")
PUBLISHED = {  # of nomic-embed-text-v1.5, what tells of the network
    "activation_function": "swiglu",
    "architectures": ["NomicBertModel"],
    "auto_map": {"AutoConfig": "own.NomicBertConfig", "AutoModel": "own.NomicBertModel"},
    "causal": False,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 8192,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "type_vocab_size": 2,
    "use_rms_norm": False,
    "vocab_size": 30528,
}
SMALL = {
    "n_embd": 32,
    "n_head": 4,
    "n_inner": 48,
    "n_layer": 4,
    "max_trained_positions": 40,
    "rotary_emb_base": 50,
    "activation_function": "geglu",
}


def read(**changes):
    return ModelConfig.from_dict({**PUBLISHED, **changes})


def test_the_first_words_mean_what_transformers_takes_for_them():
    mine, theirs = read(), ModelConfig.from_dict({"model_type": "nomic_bert"})
    assert mine == theirs
    assert mine.positions[0] == Turned(64, 1000.0) and mine.max_tokens == 2048
    assert mine.gated and not mine.norm_first and not any(mine.biases[:2]) and mine.activation == "silu"


def test_transformers_words_go_before_the_first_ones():
    assert read(hidden_size=240, hidden_act="gelu").hidden_size == 240
    assert read(hidden_size=240, hidden_act="gelu").activation == "gelu"


@pytest.mark.parametrize(
    "key, value",
    [
        ("qkv_proj_bias", True),
        ("mlp_fc1_bias", True),
        ("mlp_fc2_bias", True),
        ("prenorm", True),
        ("parallel_block", True),
        ("use_rms_norm", True),
        ("rotary_emb_interleaved", True),
        ("rotary_emb_scale_base", 512),
        ("rotary_emb_fraction", 0.5),
        ("moe_every_n_layers", 2),
        ("activation_function", "gelu"),
        ("activation_function", ["swiglu"]),
    ],
)
def test_another_network_is_refused(key, value):
    """Use a network like nomic-embed-text-v2-moe: neither transformers' nor ours."""
    with pytest.raises(NoNetwork, match=rf"auto_map: own\.NomicBertModel.*{key} .* is not") as caught:
        read(**{key: value})
    assert len(str(caught.value)) <= 300


def test_what_is_stretched_on_longer_texts_than_fit_is_as_it_is():
    assert read(rotary_scaling_factor=2.0) == read()


def publish(directory, head="Model"):
    """A checkpoint as nomic publishes them, of a small network, and transformers' maps are asked of that network."""
    settings = {"rope_parameters": {"rope_theta": 50.0}, "hidden_act": "gelu"}
    make_checkpoint(directory, "nomic_bert", head, **settings)
    vocab_size = make_config("nomic_bert").vocab_size
    data = {**PUBLISHED, **SMALL, "vocab_size": vocab_size, "pad_token_id": 0, "architectures": [f"NomicBert{head}"]}
    (directory / "config.json").write_text(json.dumps(data))
    return make_network(make_config("nomic_bert", **settings), head)


@pytest.mark.parametrize("engine", ["attncli", "transformers"])
def test_a_published_checkpoint_is_run_as_its_network(engine, tmp_path):
    network = publish(tmp_path)
    assert "encoder.layers.0.attn.Wqkv.weight" in load_file(tmp_path / "model.safetensors")
    with pytest.warns(Notice, match="its tensors match nomic_bert"):
        model = load_model(str(tmp_path), "cpu", engine=engine)
    tokens = model.tokenizer.encode("the cat sat on the cat", "it is too big")
    with torch.inference_mode():
        segments = torch.tensor([tokens.segments])
        expected = network(torch.tensor([tokens.ids]), token_type_ids=segments, output_attentions=True).attentions
    found = model.attend("the cat sat on the cat", "it is too big").weights
    torch.testing.assert_close(torch.tensor(found), torch.cat(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["safetensors", "sharded", "bin"])
def test_both_layouts_are_compared_to_1e_10(form, tmp_path):
    """transformers writes the published names, and what lies in memory, as in these pickles, has its own."""
    make_checkpoint(tmp_path, "nomic_bert", form=form)
    model = load_model(str(tmp_path), "cpu", "float64")
    assert (model.config.family.stored(model.checkpoint.shapes) == model.config.family) == (form == "bin")
    tokens = model.tokenizer.encode("the cat sat on the cat", "it is too big", 20)
    reference = load_reference(tmp_path, torch.device("cpu"), torch.float64)
    assert reference.exact and compare(model, [tokens], reference=reference).same
