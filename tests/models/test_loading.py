"""Check which engine a model gets, by the request and by its configuration."""

import warnings

import numpy as np
import pytest
import transformers
from checkpoints import DECODERS, EVERY, edit_config, make_checkpoint, vocabulary, write_tokenizer
from foreign_checkpoints import ENCODER_DECODERS, TEXT

from attncli import Engine, Notice, RequestError, load_model


@pytest.mark.parametrize("family", ["opt", "gpt_oss", *ENCODER_DECODERS])
def test_what_attncli_has_no_encoder_for_is_run_by_transformers_without_a_word(foreign, family):
    path = str(foreign(family).place.path)
    with warnings.catch_warnings(record=True) as told:  # Marian's tokenizer warns of its own
        warnings.simplefilter("always")
        model = load_model(path, "cpu")
    assert not [one for one in told if one.category is Notice]
    assert isinstance(model, Engine) and (model.name, model.sha256) == ("transformers", foreign(family).sha256)
    assert np.array_equal(model.attend(TEXT).weights, foreign(family).attend(TEXT).weights)


@pytest.mark.parametrize("family", EVERY)
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
    with pytest.warns(Notice, match=rf"^the network of {tmp_path} in .* shows its maps and nothing else$") as told:
        model = load_model(str(tmp_path), "cpu")
    assert len([one for one in told if one.category is Notice]) == 1
    assert model.name == "transformers" and model.attend("the cat").weights.shape == (2, 2, 4, 4)
    with pytest.raises(RequestError, match=r"'convbert' is not supported .* omit --engine attncli"):
        load_model(str(tmp_path), "cpu", engine="attncli")
