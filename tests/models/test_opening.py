"""Which engine a model gets, opened again as it was; and what is said of a model by its short name."""

import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from checkpoints import DECODERS, PECULIAR, edit_config, make_checkpoint, vocabulary, write_tokenizer
from foreign_checkpoints import TEXT

from attncli import Engine, Notice, RequestError, load_model
from attncli.models.aliases import ALIASES, find_alias
from attncli.models.opening import Opening
from attncli.models.transformers_peer import reference_config

# --- opened again ----------------------------------------------------------------------------------------


def reopened(engine: Engine) -> Engine:
    """By what is left of how to open it when that is sent to another process."""
    sent = pickle.dumps(Opening.of(engine))
    assert len(sent) < 1000
    opening = pickle.loads(sent)
    assert opening == Opening.of(engine)
    return opening.open()


def assert_same(again: Engine, engine: Engine) -> None:
    assert (again.name, again.sha256, again.dtype_name, again.device, again.silenced_heads, again.info) == (
        (engine.name, engine.sha256, engine.dtype_name, engine.device, engine.silenced_heads, engine.info)
    )
    np.testing.assert_array_equal(again.attend(TEXT).weights, engine.attend(TEXT).weights)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("load", [load_model, partial(load_model, engine="transformers")])
def test_an_engine_is_opened_again_as_it_was(tiny, load, dtype):
    engine = load(str(tiny("bert")), "cpu", dtype)
    assert_same(reopened(engine), engine)


def test_one_that_fell_to_transformers_falls_there_without_a_word(foreign, recwarn):
    engine = foreign("gpt2")
    assert_same(reopened(engine), engine)
    assert not recwarn.list


def test_heads_that_are_silenced_stay_so(tiny):
    plain = load_model(str(tiny("bert")), "cpu")
    engine = plain.without([(3, 1), (0, 2)]).without("0.0-1")
    assert Opening.of(engine).without == "0.0-2,3.1" and Opening.of(plain).without is None
    assert_same(reopened(engine), engine)
    assert_same(reopened(plain), plain)


def test_a_directory_is_found_from_elsewhere(tiny, tmp_path, monkeypatch):
    path = Path(tiny("bert"))
    monkeypatch.chdir(path.parent)
    opening = Opening.of(load_model(path.name, "cpu"))
    monkeypatch.chdir(tmp_path)
    assert opening.name == str(path) and opening.open().info.name == str(path)


# --- by request and configuration ------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["opt", "t5"])
def test_what_attncli_has_no_encoder_for_is_run_by_transformers_without_a_word(foreign, family):
    path = str(foreign(family).place.path)
    with warnings.catch_warnings(record=True) as told:  # Marian's tokenizer warns of its own
        warnings.simplefilter("always")
        model = load_model(path, "cpu")
    assert not [one for one in told if one.category is Notice]
    assert isinstance(model, Engine) and (model.name, model.sha256) == ("transformers", foreign(family).sha256)
    assert np.array_equal(model.attend(TEXT).weights, foreign(family).attend(TEXT).weights)


@pytest.mark.parametrize("family", PECULIAR)
def test_what_attncli_has_an_encoder_for_it_runs_without_a_word(tiny, family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for engine in ("auto", "attncli"):
            assert load_model(str(tiny(family)), "cpu", engine=engine).name == "attncli"
        asked = load_model(str(tiny(family)), "cpu", engine="transformers")
    assert asked.name == "transformers" and asked.parts == ("decoder" if family in DECODERS else "encoder",)


def test_a_bert_that_is_a_decoder_is_run_by_transformers(tmp_path):
    make_checkpoint(tmp_path, "bert")
    edit_config(tmp_path, is_decoder=True)
    assert load_model(str(tmp_path), "cpu").parts == ("decoder",)
    with pytest.raises(RequestError, match="is_decoder is set"):
        load_model(str(tmp_path), "cpu", engine="attncli")


def test_half_of_convberts_heads_are_a_convolution_and_it_is_run_by_transformers(tmp_path):
    """Load a model with a part beside the attention that our layers have no place for."""
    config = transformers.ConvBertConfig(
        vocab_size=len(vocabulary()), hidden_size=32, embedding_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=40, pad_token_id=0,
    )  # fmt: skip
    transformers.ConvBertModel(config).save_pretrained(tmp_path)
    write_tokenizer(tmp_path, "bert", 0)
    model = load_model(str(tmp_path), "cpu")
    assert model.name == "transformers" and model.attend("the cat").weights.shape == (2, 2, 4, 4)
    with pytest.raises(RequestError, match=r"'convbert' is not supported .* omit --engine attncli"):
        load_model(str(tmp_path), "cpu", engine="attncli")


# --- short names -----------------------------------------------------------------------------------------


# Millions of parameters, as papers and model cards give them: every number of an architecture is in them.
PUBLISHED = {
    "minilm": 22.7, "minilm-l12": 33.4, "bert-base": 110, "bert-large": 335, "bge-small": 33.4, "bge-base": 109,
    "bge-large": 335, "e5-small": 33.4, "e5-base": 109, "e5-large": 335, "multilingual-e5-small": 118,
    "gte-small": 33.4, "gte-base": 109, "gte-large": 335, "distilbert": 66, "electra-small": 13.5,
    "roberta-base": 125, "roberta-large": 355, "distilroberta": 82, "xlm-roberta-base": 278, "multilingual-e5": 278,
    "multilingual-e5-large": 560, "bge-m3": 568, "modernbert": 149, "modernbert-large": 395, "gte-modernbert": 149,
    "granite-r2": 149, "ettin": 150, "ettin-17m": 17, "ettin-32m": 32, "ettin-68m": 68, "ettin-400m": 395,
    "ettin-1b": 1028, "mmbert": 307, "mmbert-small": 140, "mpnet": 109, "deberta-v3": 184, "deberta-v3-xsmall": 70.7,
    "xlm-roberta-xl": 3500, "xlm-roberta-xxl": 10700, "ernie-3": 118, "deberta-v3-small": 141, "deberta-v3-large": 434,
    "eurobert": 212, "eurobert-610m": 608, "eurobert-2.1b": 2107, "albert-base": 11.8, "albert-large": 17.9,
    "albert-xlarge": 58.9, "albert-xxlarge": 223, "albert-small": 11.7, "deberta-base": 139, "deberta-large": 405,
    "deberta-xlarge": 757, "nomic-embed": 137, "nomic-embed-v1": 137, "coderank": 137, "arctic-embed-m-long": 137,
    "gte-base-v1.5": 137, "gte-large-v1.5": 434, "gte-multilingual": 305, "jina-v3": 559,  # 572 with its adapters
    "smollm2": 134.5,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("alias", PUBLISHED)
def test_an_architecture_has_as_many_parameters_as_its_authors_say(alias):
    config = reference_config(ALIASES[alias].config)
    with torch.device("meta"):
        network = transformers.AutoModel.from_config(config)
    assert sum(one.numel() for one in network.parameters()) / 1e6 == pytest.approx(PUBLISHED[alias], rel=0.015)


def test_no_two_names_mean_the_same_repository():
    names = [name for alias, entry in ALIASES.items() for name in {alias, entry.repo, entry.repo.partition("/")[2]}]
    assert len(names) == len(set(names))
    assert all(find_alias(entry.repo)[0] == alias for alias, entry in ALIASES.items())
