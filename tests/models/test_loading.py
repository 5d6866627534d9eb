"""Which engine a model gets: by what is asked for, and by what stands in its configuration."""

import warnings

import numpy as np
import pytest
import transformers
from checkpoints import FAMILIES, edit_config, make_checkpoint, vocabulary, write_tokenizer
from foreign_checkpoints import DECODERS, ENCODER_DECODERS, TEXT

from attncli import Engine, Notice, RequestError, load_model


@pytest.mark.parametrize("family", [*DECODERS, *ENCODER_DECODERS])
def test_what_attncli_has_no_encoder_for_is_run_by_transformers_with_one_notice(foreign, family):
    path = str(foreign(family).place.path)
    with pytest.warns(Notice) as told:
        model = load_model(path, "cpu")
    notices = [str(one.message) for one in told if one.category is Notice]  # Marian's tokenizer warns of its own
    assert [notice.startswith(f"transformers runs {path}: model type '{family}'") for notice in notices] == [True]
    assert isinstance(model, Engine) and (model.name, model.sha256) == ("transformers", foreign(family).sha256)
    assert np.array_equal(model.attend(TEXT).weights, foreign(family).attend(TEXT).weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_attncli_has_an_encoder_for_it_runs_without_a_word(tiny, family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for engine in ("auto", "attncli"):
            assert load_model(str(tiny(family)), "cpu", engine=engine).name == "attncli"
        asked = load_model(str(tiny(family)), "cpu", engine="transformers")
    assert asked.name == "transformers" and asked.parts == ("encoder",)


def test_a_bert_that_is_a_decoder_is_run_by_transformers(tmp_path):
    make_checkpoint(tmp_path, "bert")
    edit_config(tmp_path, is_decoder=True)
    with pytest.warns(Notice, match="is_decoder is set"):
        assert load_model(str(tmp_path), "cpu").parts == ("decoder",)


def test_half_of_convberts_heads_are_a_convolution_and_it_is_run_by_transformers(tmp_path):
    """It has a part beside the attention that our layers have no place for."""
    config = transformers.ConvBertConfig(
        vocab_size=len(vocabulary()), hidden_size=32, embedding_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=40, pad_token_id=0,
    )  # fmt: skip
    transformers.ConvBertModel(config).save_pretrained(tmp_path)
    write_tokenizer(tmp_path, "bert", 0)
    with pytest.warns(Notice, match="model type 'convbert' is not one that attncli has an encoder for"):
        model = load_model(str(tmp_path), "cpu")
    assert model.name == "transformers" and model.attend("the cat").weights.shape == (2, 2, 4, 4)
    with pytest.raises(RequestError, match="leave --engine attncli out"):
        load_model(str(tmp_path), "cpu", engine="attncli")


def test_what_is_asked_for_and_not_there_is_refused_with_a_way_out(foreign):
    path = str(foreign("gpt2").place.path)
    with pytest.raises(RequestError, match=r"leave --engine attncli out, and transformers runs it$"):
        load_model(path, "cpu", engine="attncli")
    with pytest.raises(RequestError, match="no engine 'torch'"):
        load_model(path, "cpu", engine="torch")
