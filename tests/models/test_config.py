"""config.json -> the numbers of an encoder, against transformers' own configurations."""

import json
from pathlib import Path

import pytest
import transformers
from checkpoints import FAMILIES, OWN, make_config

from attncli.base.errors import RequestError
from attncli.models import families
from attncli.models.config import ModelConfig

# What BERT calls a number -> what it is called here.
NUMBERS = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "position_rows",
    "pad_token_id": "pad_id",
    "hidden_act": "activation",
    "type_vocab_size": "segments",
    "layer_norm_eps": "layer_norm_eps",
}


def same(ours: ModelConfig, theirs: transformers.PreTrainedConfig) -> None:
    for bert, our_name in NUMBERS.items():
        if (their_name := ours.family.keys.get(bert, bert)) is not None:
            stated = getattr(theirs, their_name)
            usual = 4 * theirs.hidden_size if their_name == "n_inner" else None
            assert getattr(ours, our_name) == (usual if stated is None else stated), our_name
    assert ours.embedding_size == getattr(theirs, "embedding_size", theirs.hidden_size)
    assert ours.model_type == theirs.model_type


def test_every_file_of_a_family_is_found_by_its_model_types():
    folder = Path(families.__path__[0])
    described = {path.stem for path in folder.glob("*.py")} - {"__init__", "family"}
    assert described == {place.split(".")[0] for place in families.PLACES.values()}
    for model_type in families.PLACES:
        others = families.find_family(model_type).types
        assert model_type in others and {families.PLACES[one] for one in others} == {families.PLACES[model_type]}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_file_leaves_out_is_as_transformers_has_it(family):
    same(ModelConfig.from_dict({"model_type": family}), transformers.CONFIG_MAPPING[family]())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_that_transformers_wrote(family, tmp_path):
    theirs = make_config(
        family, num_hidden_layers=3, num_attention_heads=2, hidden_size=24, intermediate_size=7, pad_token_id=4
    )
    theirs.save_pretrained(tmp_path)
    ours = ModelConfig.from_file(tmp_path / "config.json")
    same(ours, theirs)
    assert ours.head_dim == OWN.get(family, {}).get("head_dim", 12)
    assert ours.layers == 3


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert"])
def test_robertas_positions_start_behind_its_padding(family):
    config = ModelConfig.from_dict({"model_type": family, "max_position_embeddings": 514, "pad_token_id": 1})
    assert (config.padding_position, config.max_tokens) == (1, 512)
    config = ModelConfig.from_dict({"model_type": family, "max_position_embeddings": 514, "pad_token_id": 3})
    assert (config.padding_position, config.max_tokens) == (3, 510)


WRONG = [
    ({"model_type": "opt"}, "opt.*not supported"),
    ({"model_type": None}, "model type None"),
    ({"model_type": ["bert"]}, "model type"),
    ({"is_decoder": True}, "is_decoder"),
    ({"hidden_act": "selu"}, "selu.*gelu"),
    ({"hidden_act": ["gelu"]}, "activation"),
    ({"num_attention_heads": 5}, "32 is not divisible by 5"),
    ({"num_attention_heads": True}, "num_attention_heads is True"),
    ({"num_hidden_layers": "4"}, "num_hidden_layers is '4'"),
    ({"hidden_size": 32.0}, r"hidden_size is 32\.0"),
    ({"max_position_embeddings": 3}, "max_position_embeddings 3"),
    ({"layer_norm_eps": "1e-12"}, "layer_norm_eps is '1e-12'"),
    ({"layer_norm_eps": float("inf")}, "layer_norm_eps is inf"),
    ({"pad_token_id": 10**12}, "pad_token_id is 10+"),
    ({"model_type": "\x1b[2J" * 1000}, r"model type '\\x1b\[2J"),
    ({"num_hidden_layers": 10**1000}, r"num_hidden_layers is 1000+\.\.\.0+,"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG, ids=[json.dumps(one)[:40] for one, _ in WRONG])
def test_a_wrong_value_is_named_with_its_file(changes, says, tmp_path):
    make_config("bert").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RequestError, match=says) as caught:
        ModelConfig.from_file(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert len(str(caught.value).replace(str(path), "")) < 250


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * 100_000],
)
def test_a_garbled_file_is_named(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(RequestError) as caught:
        ModelConfig.from_file(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_file(tmp_path):
    with pytest.raises(RequestError, match=r"not a model's directory: it has no config\.json"):
        ModelConfig.from_file(tmp_path / "config.json")
    with pytest.raises(RequestError, match="directory"):
        ModelConfig.from_file(tmp_path)
