"""Peculiarities of ModernBERT: kinds of layers, windows, bases, and its config.json."""

import pytest

from attncli.models.config import ModelConfig
from attncli.models.families.family import Turned

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
