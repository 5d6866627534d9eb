"""What is peculiar to DeBERTa: its terms, buckets, shared projections, convolution, and what a config.json asks for."""

import pytest
from walks import as_transformers

from attncli import RequestError
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoEncoder

pytestmark = pytest.mark.usefixtures("exact")
V3 = {
    "model_type": "deberta-v2",
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "max_relative_positions": -1,
    "hidden_size": 24,
}


def read(**changes):
    return ModelConfig.from_dict({**V3, **changes})


def test_what_deberta_v3_says():
    config = read()
    [terms] = set(config.positions)
    assert set(terms.kinds) == {"content to position", "position to content"}
    assert (terms.span, terms.near, terms.furthest, terms.normed, terms.shared) == (256, 256, 512, True, True)
    assert (config.segments, config.position_table, config.conv) == (0, False, None)
    assert config.document()["positions"] == "disentangled"
    assert read(position_biased_input=True).document()["positions"] == "learned, disentangled"


WRONG = [
    ({"position_buckets": 10**30}, "position_buckets"),
    ({"position_buckets": 1}, "position_buckets is 1,"),
    ({"position_buckets": 1.5}, r"position_buckets is 1\.5"),
    ({"max_relative_positions": 10**30}, "max_relative_positions"),
    ({"max_relative_positions": None}, "max_relative_positions is None"),
    ({"norm_rel_ebd": 3}, "norm_rel_ebd"),
    ({"share_att_key": "yes"}, "share_att_key is 'yes'"),
    ({"relative_attention": []}, "relative_attention"),
    ({"conv_kernel_size": 4}, "conv_kernel_size is 4"),
    ({"conv_kernel_size": 101}, "conv_kernel_size is 101"),
    ({"conv_kernel_size": 3, "conv_groups": 5}, "24 is not divisible by 5 conv_groups"),
    ({"conv_kernel_size": 3, "conv_groups": 0}, "conv_groups is 0"),
    ({"conv_kernel_size": 3, "conv_act": ["gelu"]}, "activation"),
    ({"type_vocab_size": -1}, "is -1"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG)
def test_a_wrong_value_is_named(changes, says):
    with pytest.raises(RequestError, match=says) as caught:
        read(**changes)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pos_att_type": "p2p"}, "other than c2p and p2c"),
        ({"pos_att_type": [["c2p"]]}, "other than c2p and p2c"),
        ({"pos_att_type": 7}, "other than c2p and p2c"),
        ({"relative_attention": False}, "without relative_attention"),
        ({"embedding_size": 5}, "widened"),
    ],
)
def test_what_our_network_can_not_do_is_for_transformers(changes, says):
    with pytest.raises(NoEncoder, match=says):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"share_att_key": True, "norm_rel_ebd": "none"},
        {"pos_att_type": ["c2p"]},
        {"pos_att_type": "p2c", "share_att_key": True},
        {"pos_att_type": []},
        {"position_buckets": -1},
        {"position_buckets": -1, "max_relative_positions": 5},
        {"position_buckets": 16, "max_relative_positions": 20},
        {"position_buckets": 2},
        {"position_buckets": 6, "max_relative_positions": 4},
        {"relative_attention": False, "pos_att_type": [], "position_biased_input": True, "norm_rel_ebd": "none"},
        {"conv_kernel_size": 3, "conv_act": "gelu"},
        {"conv_kernel_size": 5, "conv_groups": 4, "type_vocab_size": 0},
    ],
)
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_other_configurations_are_transformers(changes, mask):
    as_transformers("deberta-v2", mask, changes)
