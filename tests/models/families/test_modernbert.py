"""What is peculiar to ModernBERT: kinds of layers, windows, bases, and what a config.json may say of them."""

import pytest
from walks import as_transformers

from attncli import RequestError
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoEncoder, Turned

pytestmark = pytest.mark.usefixtures("exact")
OLD = {"model_type": "modernbert", "num_hidden_layers": 7, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}


def read(**changes):
    return ModelConfig.from_dict({**OLD, **changes})


def test_what_a_file_of_before_transformers_5_says():
    config = read(position_embedding_type="sans_pos", local_attention=128)
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
    config = read(num_hidden_layers=2, layer_types=kinds, rope_parameters=bases, local_attention=9)
    assert config.reach == (4, None)
    assert config.positions == (Turned(64, 5.0), Turned(64, 7.0))


WRONG = [
    ({"layer_types": ["full_attention"]}, "layer_types .* 7 layers"),
    ({"layer_types": [["full_attention"]] * 7}, "layer_types"),
    ({"layer_types": "full_attention"}, "layer_types"),
    ({"layer_types": {}}, "layer_types"),
    ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0"),
    ({"local_attention": 0}, "local_attention is 0"),
    ({"local_attention": 10**30}, "local_attention"),
    ({"local_attention": "128"}, "local_attention is '128'"),
    ({"rope_parameters": [1]}, "rope_parameters"),
    ({"rope_parameters": "x" * 9999}, "rope_parameters"),
    ({"rope_parameters": {"full_attention": 3}}, "rope_parameters"),
    ({"rope_parameters": {"full_attention": {"rope_theta": "1"}}}, "rope_theta of full_attention is '1'"),
    ({"global_rope_theta": 0}, "rope_theta of full_attention is 0"),
    ({"global_rope_theta": float("nan")}, "rope_theta of full_attention is nan"),
    ({"local_rope_theta": float("inf")}, "rope_theta of sliding_attention is inf"),
    ({"local_rope_theta": 10**400}, "rope_theta of sliding_attention"),
    ({"local_rope_theta": True}, "rope_theta of sliding_attention is True"),
    ({"local_rope_theta": [1] * 9999}, "rope_theta"),
    ({"attention_bias": 1}, "attention_bias is 1"),
    ({"norm_eps": None}, "layer_norm_eps"),
    ({"hidden_size": 36}, "heads of 3 elements"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG)
def test_a_wrong_value_is_named(changes, says):
    with pytest.raises(RequestError, match=says) as caught:
        read(**changes)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
        {"rope_parameters": {"full_attention": {"rope_type": "dynamic", "factor": 2.0}}},
        {"rope_parameters": {"full_attention": {"rope_type": ["linear"]}}},
    ],
)
def test_stretched_positions_are_for_transformers(changes):
    with pytest.raises(NoEncoder, match="scales its rotary"):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": True, "mlp_bias": True, "norm_bias": True},
        {"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 400.0, "factor": 2.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
            }
        },
        {"local_attention": 7},
        {"local_attention": 64},
    ],
)
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_other_configurations_are_transformers(changes, mask):
    as_transformers("modernbert", mask, changes)
