"""Descriptions of checkpoints from config.json, and the engine that runs each of them."""

import json

import pytest
from checkpoints import FAMILIES, PECULIAR
from foreign_checkpoints import DECODERS, ENCODER_DECODERS, LAYERED, NO_TEXT, WORDPIECE, make_foreign
from hypothesis import given
from hypothesis import strategies as st

from attncli import RequestError, load_model
from attncli.models.config import TEXTS, ModelConfig, choose_engine, describe, facts

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=8), some, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["model_type", "architectures", "n_layer", "num_hidden_layers", "num_heads", "hidden_size", "vocab_size", "encoder",
     "text_config", "vision_config", "is_encoder_decoder", "image_size", "position_embedding_type"]
)  # fmt: skip


@pytest.mark.parametrize("family", PECULIAR)
def test_of_our_families_all_is_said_that_our_network_goes_by(tiny, family):
    directory = tiny(family)
    config = ModelConfig.from_file(directory / "config.json")
    assert describe(directory) == ("attncli", None, config.document())


@pytest.mark.parametrize(
    "family", [one for one in (*DECODERS, *ENCODER_DECODERS, *WORDPIECE, *LAYERED) if one not in FAMILIES]
)
def test_what_is_said_is_what_transformers_finds(foreign, family):
    model = foreign(family)
    engine, why, config = describe(model.place.path)
    assert engine == "transformers" and f"model type {config['model_type']!r} is not supported" in why
    for part in model.parts:
        info = model.of_part(part).info
        half = "decoder" if part == "cross" else part  # two networks have a configuration each, or share one
        own = config.get(half, config)
        of = "decoder_" if half == "decoder" and "decoder_layers" in own else ""
        assert own[f"{of}layers"] == info.layers
        assert own.get(f"{of}heads", own["heads"]) == info.heads
        assert own["hidden_size"] == info.hidden_size
        assert own["vocab_size"] == model.network.get_input_embeddings().num_embeddings
    assert config.get("max_tokens", 40) == 40


@pytest.mark.parametrize(("family", "reads"), NO_TEXT.items())
def test_what_reads_no_text_is_run_by_nobody(tmp_path, family, reads):
    engine, why, config = describe(make_foreign(tmp_path, family))
    assert engine is None and why.startswith(f"it reads {reads}")
    assert config["model_type"] == family
    with pytest.raises(RequestError):
        load_model(str(tmp_path))


def test_what_has_no_heads_is_run_by_nobody(tmp_path):
    path = make_foreign(tmp_path, "mamba")
    engine, why, config = describe(path)
    assert (engine, why, config["layers"]) == (None, "config.json names no attention heads", 2)
    with pytest.raises(RequestError, match="has no attention in transformers with one map per head"):
        load_model(str(path), "cpu")


def test_without_a_tokenizer_nobody_reads_a_text(tiny, tmp_path):
    (tmp_path / "config.json").write_text((tiny("bert") / "config.json").read_text())
    engine, why, config = describe(tmp_path)
    assert (engine, why, config["layers"]) == (None, "it has no tokenizer", 4)


@given(st.dictionaries(KEYS, ANYTHING))
def test_whatever_stands_there_something_is_said_of_it(data):
    engine, why = choose_engine(data)
    assert engine in ("attncli", "transformers", None) and (engine == "attncli" or isinstance(why, str))
    said = facts(data)
    json.dumps(said, allow_nan=False)
    assert all(isinstance(said[name], str) for name in TEXTS if name in said)
