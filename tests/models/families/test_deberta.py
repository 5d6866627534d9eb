"""What is peculiar to the first DeBERTa: one matrix by head, its biases, its vectors of offsets, and its tokenizer."""

import json

import pytest
from checkpoints import MERGES, byte_vocabulary, make_config, make_network
from walks import as_transformers, network_of

from attncli import RequestError
from attncli.models.config import ModelConfig
from attncli.models.families.family import NoEncoder
from attncli.text.tokenizer import Tokenizer

BASE = {
    "model_type": "deberta",
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": -1,
    "type_vocab_size": 0,
}


def read(**changes):
    return ModelConfig.from_dict({**BASE, **changes})


def test_what_deberta_base_says():
    config = read()
    [terms] = set(config.positions)
    assert set(terms.kinds) == {"content to position", "position to content"}
    assert (terms.span, terms.near, terms.normed, terms.shared) == (512, 0, False, False)
    assert (config.segments, config.position_table, config.layer_norm_eps) == (0, False, 1e-7)
    assert config.biases.attention and config.biases.bare_keys
    assert read(max_relative_positions=9).positions[0].span == 9


def test_keys_of_version_2_mean_nothing():
    """transformers passes over them."""
    assert read(position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True) == read()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"talking_head": True}, "talking_head"),
        ({"pos_att_type": "c2p|p2p"}, "other than c2p and p2c"),
        ({"pos_att_type": "c2p|c2p"}, "a term twice"),
        ({"relative_attention": False}, "without relative_attention"),
        ({"embedding_size": 5}, "widened"),
    ],
)
def test_what_our_network_can_not_do_is_for_transformers(changes, says):
    with pytest.raises(NoEncoder, match=says):
        read(**changes)


@pytest.mark.parametrize("changes", [{"talking_head": "no"}, {"max_relative_positions": None}, {"type_vocab_size": -1}])
def test_a_wrong_value_is_named(changes):
    with pytest.raises(RequestError, match=rf"{'|'.join(changes)}|segments is -1"):
        read(**changes)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in (
                {"max_relative_positions": -1},
                {"pos_att_type": ["c2p"], "max_relative_positions": 1},
                {"pos_att_type": "p2c", "type_vocab_size": 0, "position_biased_input": True},
                {"pos_att_type": []},
                {"relative_attention": False, "pos_att_type": None, "position_biased_input": True},
                {"hidden_act": "gelu_new", "layer_norm_eps": 0.01},
            )
        ),
    ],
)
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_other_configurations_are_transformers(changes, mask):
    as_transformers("deberta", mask, changes)


def test_a_projection_of_keys_has_no_bias():
    config = make_config("deberta")
    layer = network_of(make_network(config)).layer(2)
    projections = {**dict(layer.attention.named_children()), **{f"own {k}": v for k, v in layer.score.own.items()}}
    biased = {name for name, part in projections.items() if getattr(part, "bias", None) is not None}
    assert biased == {"query", "value", "output", "own query"}


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
