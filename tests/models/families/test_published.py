"""NomicBERT and GTE as published, before transformers had them: files in words and under names of their own."""

import json

import pytest
import torch
from checkpoints import compare, make_checkpoint, make_config
from safetensors.torch import load_file, save_file

from attncli import RequestError, load_model
from attncli.base.errors import Notice
from attncli.models.config import ModelConfig
from attncli.models.families.family import Biases, NoNetwork, NoOwnNetwork, RotaryPositions
from attncli.models.network import layer_scores
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")
# What tells of the network in nomic-embed-text-v1.5 and in gte-multilingual-base.
NOMIC = {
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
GTE = {
    "architectures": ["NewModel"],
    "auto_map": {"AutoConfig": "own.NewConfig", "AutoModel": "own.NewModel"},
    "hidden_act": "gelu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": 8192,
    "model_type": "new",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pack_qkv": True,
    "pad_token_id": 1,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "rope_theta": 20000,
    "type_vocab_size": 1,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "vocab_size": 250048,
}


def read(published, **changes):
    return ModelConfig.from_dict({**published, **changes})


# --- config.json ----------------------------------------------------------------------------------------


def test_the_first_words_of_nomic_mean_what_transformers_takes_for_them():
    mine, theirs = read(NOMIC), ModelConfig.from_dict({"model_type": "nomic_bert"})
    assert mine == theirs
    assert mine.positions[0] == RotaryPositions(64, 1000.0) and mine.max_tokens == 2048
    assert mine.gated and not mine.norm_first and not any(mine.biases[:2]) and mine.activation == "silu"
    assert read(NOMIC, rotary_scaling_factor=2.0) == mine  # it stretches longer texts than fit
    newer = read(NOMIC, hidden_size=240, hidden_act="gelu")
    assert (newer.hidden_size, newer.activation) == (240, "gelu")


@pytest.mark.parametrize(
    ("published", "key", "value"),
    [
        (NOMIC, "qkv_proj_bias", True),
        (NOMIC, "mlp_fc1_bias", True),
        (NOMIC, "prenorm", True),
        (NOMIC, "parallel_block", True),
        (NOMIC, "use_rms_norm", True),
        (NOMIC, "rotary_emb_interleaved", True),
        (NOMIC, "rotary_emb_scale_base", 512),
        (NOMIC, "rotary_emb_fraction", 0.5),
        (NOMIC, "moe_every_n_layers", 2),  # as nomic-embed-text-v2-moe
        (NOMIC, "activation_function", "gelu"),
        (GTE, "position_embedding_type", "absolute"),
        (GTE, "layer_norm_type", "rms_norm"),
        (GTE, "logn_attention_scale", True),
        (GTE, "pack_qkv", False),
    ],
)
def test_another_network_is_refused(published, key, value):
    """It is neither transformers' nor ours."""
    with pytest.raises(NoNetwork, match=rf"auto_map: own\.N.*Model.*{key} .* is not") as caught:
        read(published, **{key: value})
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("theta, factor, heads", [(20000, 8.0, 12), (500000, 2.0, 12), (160000, 2.0, 4)])
def test_fixed_ntk_scaling_is_that_of_the_published_code(theta, factor, heads):
    config = read(GTE, rope_theta=theta, rope_scaling={"type": "ntk", "factor": factor}, num_attention_heads=heads)
    size = 768 // heads
    pair = torch.arange(0, size, 2, dtype=torch.float64)
    expected = 1.0 / (theta * factor) ** (pair / size) / factor ** (2 / size)
    torch.testing.assert_close(layer_scores(config)[0].rotary.rates(torch.float64), expected, rtol=1e-14, atol=0)


def test_what_new_leaves_out_is_as_its_code_took_it():
    config = ModelConfig.from_dict({"model_type": "new"})
    assert (config.vocab_size, config.max_tokens, config.positions[0].base) == (30528, 2048, 10000.0)
    assert ModelConfig.from_dict({"model_type": "gte"}).positions[0].base == 160000.0
    assert config.biases == Biases(feed_forward=False, down=True)


def test_other_scalings_of_gte_are_for_transformers_or_wrong():
    with pytest.raises(NoOwnNetwork, match="rope_type 'ntk'"):
        read(GTE, rope_scaling={"type": "ntk", "factor": 8.0, "mixed_b": 0.5})
    for scaling in ({"type": "ntk"}, {"type": "ntk", "factor": "8"}, {"type": "ntk", "factor": 0}):
        with pytest.raises(RequestError, match=r"factor is .*, not a number"):
            read(GTE, rope_scaling=scaling)


# --- checkpoints ----------------------------------------------------------------------------------------


def publish_nomic(directory):
    """transformers writes the names of nomic's own code."""
    make_checkpoint(directory, "nomic_bert", rope_parameters={"rope_theta": 50.0}, hidden_act="gelu")
    assert "encoder.layers.0.attn.Wqkv.weight" in load_file(directory / "model.safetensors")
    small = {"n_embd": 32, "n_head": 4, "n_inner": 48, "n_layer": 4, "max_trained_positions": 40, "pad_token_id": 0}
    more = {"rotary_emb_base": 50, "activation_function": "geglu", "vocab_size": make_config("nomic_bert").vocab_size}
    (directory / "config.json").write_text(json.dumps({**NOMIC, **small, **more}))


def publish_gte(directory, segments):
    """GTE's code writes "new." before every name."""
    make_checkpoint(directory, "gte", rope_parameters={"rope_theta": 9.0}, type_vocab_size=segments)
    path = directory / "model.safetensors"
    save_file({f"new.{name}": tensor for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    small = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    more = {"max_position_embeddings": 40, "pad_token_id": 0, "vocab_size": make_config("gte").vocab_size}
    scaling = {"rope_theta": 30, "rope_scaling": {"factor": 3.0, "type": "ntk"}, "type_vocab_size": segments}
    (directory / "config.json").write_text(json.dumps({**GTE, **small, **more, **scaling}))


@pytest.mark.parametrize(
    ("publish", "family"),
    [
        (publish_nomic, "nomic_bert"),
        (lambda directory: publish_gte(directory, 2), "gte"),
        (lambda directory: publish_gte(directory, 0), "gte"),
    ],
)
def test_a_published_checkpoint_is_equal_to_1e_10(publish, family, tmp_path):
    publish(tmp_path)
    with pytest.warns(
        Notice, match=rf"auto_map: own\.N\w+Model\), which is not run: its tensors fit the network of type {family}"
    ):
        model = load_model(str(tmp_path), "cpu", "float64")
    assert (
        family != "gte"
        or model.config.segments == json.loads((tmp_path / "config.json").read_text())["type_vocab_size"]
    )
    reference = load_reference(tmp_path, torch.device("cpu"), torch.float64)
    tokens = model.tokenizer.encode("the cat sat on the cat", "it is too big", 20)
    assert reference.exact and compare(model, [tokens], reference=reference).same
    with pytest.warns(Notice, match="is not run"):
        theirs = load_model(str(tmp_path), "cpu", engine="transformers")
    found, expected = (one.attend("the cat sat").weights for one in (model, theirs))
    assert abs(found - expected).max() < 1e-5


def test_a_pickle_of_nomic_has_the_names_of_transformers(tmp_path):
    """As it lies in memory."""
    make_checkpoint(tmp_path, "nomic_bert", form="bin")
    model = load_model(str(tmp_path), "cpu", "float64")
    assert model.config.family.stored(model.checkpoint.shapes) == model.config.family
    tokens = model.tokenizer.encode("the cat sat on the cat", "it is too big", 20)
    reference = load_reference(tmp_path, torch.device("cpu"), torch.float64)
    assert reference.exact and compare(model, [tokens], reference=reference).same
