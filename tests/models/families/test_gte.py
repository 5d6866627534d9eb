"""Peculiarities of GTE: the model type "new", fixed NTK scaling, a checkpoint without segments."""

import json

import pytest
import torch
from checkpoints import compare, make_checkpoint, make_config
from safetensors.torch import load_file, save_file

from attncli import RequestError, load_model
from attncli.base.errors import Notice
from attncli.models.config import ModelConfig
from attncli.models.families.family import Biases, NoNetwork, NoOwnNetwork
from attncli.models.network import layer_scores
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")
PUBLISHED = {  # of gte-multilingual-base, what tells of the network
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


def read(**changes):
    return ModelConfig.from_dict({**PUBLISHED, **changes})


@pytest.mark.parametrize("theta, factor, heads", [(20000, 8.0, 12), (500000, 2.0, 12), (160000, 2.0, 4)])
def test_fixed_ntk_scaling_is_that_of_the_published_code(theta, factor, heads):
    config = read(rope_theta=theta, rope_scaling={"type": "ntk", "factor": factor}, num_attention_heads=heads)
    size = 768 // heads
    pair = torch.arange(0, size, 2, dtype=torch.float64)
    expected = 1.0 / (theta * factor) ** (pair / size) / factor ** (2 / size)
    torch.testing.assert_close(layer_scores(config)[0].rotary.rates(torch.float64), expected, rtol=1e-14, atol=0)


def test_what_new_leaves_out_is_as_its_code_took_it():
    config = ModelConfig.from_dict({"model_type": "new"})
    assert (config.vocab_size, config.max_tokens, config.positions[0].base) == (30528, 2048, 10000.0)
    assert ModelConfig.from_dict({"model_type": "gte"}).positions[0].base == 160000.0
    assert config.biases == Biases(feed_forward=False, down=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"position_embedding_type": "absolute"},
        {"layer_norm_type": "rms_norm"},
        {"logn_attention_scale": True},
        {"pack_qkv": False},
    ],
)
def test_another_network_is_refused(changes):
    with pytest.raises(NoNetwork, match=rf"auto_map: own\.NewModel.*{next(iter(changes))} .* is not"):
        read(**changes)


def test_what_is_stretched_otherwise_or_makes_no_sense():
    with pytest.raises(NoOwnNetwork, match="rope_type 'ntk'"):
        read(rope_scaling={"type": "ntk", "factor": 8.0, "mixed_b": 0.5})
    for scaling in ({"type": "ntk"}, {"type": "ntk", "factor": "8"}, {"type": "ntk", "factor": 0}):
        with pytest.raises(RequestError, match=r"factor is .*, not a number"):
            read(rope_scaling=scaling)
    with pytest.raises(RequestError, match="rope_theta is 'x'"):
        read(rope_theta="x")
    with pytest.raises(RequestError, match="hidden_size is 0"):
        read(hidden_size=0)


def publish(directory, **changes):
    """A checkpoint as its code wrote them: "new." before every name."""
    make_checkpoint(directory, "gte", rope_parameters={"rope_theta": 9.0}, **changes)
    path = directory / "model.safetensors"
    save_file({f"new.{name}": tensor for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    small = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    more = {"max_position_embeddings": 40, "pad_token_id": 0, "vocab_size": make_config("gte").vocab_size}
    scaling = {"rope_theta": 30, "rope_scaling": {"factor": 3.0, "type": "ntk"}}
    data = {**PUBLISHED, **small, **more, **scaling, "type_vocab_size": changes.get("type_vocab_size", 2)}
    (directory / "config.json").write_text(json.dumps(data))


@pytest.mark.parametrize("segments", [2, 0])
def test_a_published_checkpoint_is_equal_to_1e_10(segments, tmp_path):
    publish(tmp_path, type_vocab_size=segments)
    with pytest.warns(Notice, match=r"auto_map: own\.NewModel\), which is not run: its tensors match gte"):
        model = load_model(str(tmp_path), "cpu", "float64")
    assert model.config.segments == segments
    reference = load_reference(tmp_path, torch.device("cpu"), torch.float64)
    tokens = model.tokenizer.encode("the cat sat on the cat", "it is too big", 20)
    assert reference.exact and compare(model, [tokens], reference=reference).same
    with pytest.warns(Notice, match="is not run"):
        theirs = load_model(str(tmp_path), "cpu", engine="transformers")
    found, expected = (one.attend("the cat sat").weights for one in (model, theirs))
    assert abs(found - expected).max() < 1e-5
