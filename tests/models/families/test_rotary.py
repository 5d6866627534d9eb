"""Read rotary positions that all layers share from config.json."""

import pytest

from attncli.models.families.family import NoOwnNetwork, Turned, Values, rotary_positions

DEFAULTS = {"rope_theta": 700.0}


def read(**data):
    return rotary_positions(Values(data, {}, DEFAULTS))


@pytest.mark.parametrize(
    "data, base, stretch",
    [
        ({}, 700.0, 1.0),
        ({"rope_theta": 5}, 5.0, 1.0),
        ({"rope_parameters": None, "rope_scaling": None}, 700.0, 1.0),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 50}, "rope_theta": 5}, 50.0, 1.0),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2}}, 700.0, 2.0),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 5}, 5.0, 4.0),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": {"rope_theta": 9}}, 700.0, 4.0),
        ({"rope_parameters": {"rope_type": "linear", "factor": 1}}, 700.0, 1.0),
        ({"partial_rotary_factor": 1.0, "head_dim": 64}, 700.0, 1.0),
    ],
)
def test_keys_of_both_versions_are_read_as_transformers_reads_them(data, base, stretch):
    from transformers import NomicBertConfig

    assert read(**data) == Turned(64, base, stretch=stretch)
    theirs = NomicBertConfig(**{**DEFAULTS, **data}).rope_parameters
    assert (theirs["rope_theta"], theirs.get("factor", 1.0)) == (base, stretch)


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope", "ntk", 3, ["linear"]])
def test_what_is_stretched_otherwise_is_for_transformers(kind):
    with pytest.raises(NoOwnNetwork, match="scales its rotary"):
        read(rope_parameters={"rope_type": kind, "factor": 2.0})


@pytest.mark.parametrize(
    "data", [{"partial_rotary_factor": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.5}}, {"head_dim": 32}]
)
def test_parts_of_heads_are_for_transformers(data):
    with pytest.raises(NoOwnNetwork, match="head"):
        read(**data)
