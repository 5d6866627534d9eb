"""Check which outputs a checkpoint has, by its tensors and its config.json, and why others are missing."""

from pathlib import Path

import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from safetensors.torch import load_file, save_file
from sentences import pooling, write_modules

from attncli import Notice, RequestError
from attncli.models.loading import load_model
from attncli.models.model import Model


@pytest.fixture
def made(tmp_path):
    """`made("ForMaskedLM", **changes)` -> a directory of its own, to be changed."""
    return lambda head, family="bert", **changes: make_checkpoint(tmp_path / "made", family, head, **changes)


def opened(directory: Path) -> Model:
    return load_model(str(directory), "cpu")


def change_tensors(directory: Path, change) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def test_a_plain_encoder_has_none(tiny):
    model = opened(tiny("bert"))
    assert model.outputs() == {} and model.available_outputs.refused == {}
    with pytest.raises(RequestError, match="has no output: its files define no head and no pooling"):
        model.predict("the cat")


def test_a_classifier_is_what_config_json_says_it_is_and_not_its_tensors_names(made):
    """BERT's classes and token labels have one name."""
    directory = made("ForSequenceClassification", num_labels=3)
    assert list(opened(directory).outputs()) == ["classes"]
    edit_config(directory, architectures=["BertForTokenClassification"])
    assert list(opened(directory).outputs()) == ["tokens"]
    for nobody in (None, ["BertModel"], ["BertForMultipleChoice"], 5, [7]):
        edit_config(directory, architectures=nobody)
        assert opened(directory).outputs() == {} and opened(directory).available_outputs.refused == {}


def test_several_outputs_stand_in_order_and_are_asked_for_by_name(made):
    directory = write_modules(made("ForPreTraining"), pooling("mean_tokens"))
    model = opened(directory)
    assert list(model.outputs()) == ["embedding", "words", "next sentence"]
    assert model.predict("the cat").kind == "embedding"
    assert model.predict("the [MASK]").kind == "words"
    assert model.predict("the [MASK]", output="embedding").kind == "embedding"
    follows = model.predict("the cat", "it sat", output="next sentence")
    assert (follows.kind, follows.labels) == ("classes", ["follows", "does not follow"])
    with pytest.raises(RequestError, match="no output 'span': it has embedding, words, next sentence"):
        model.predict("the cat", output="span")


def without(name):
    return lambda directory: change_tensors(directory, lambda tensors: tensors.pop(name))


SPOILED = [
    *(
        ({"id2label": labels}, why)
        for labels, why in (
            ({"0": "x"}, r"classifier.weight has the shape \[3, 32\], but config.json requires \[1, 32\]"),
            ({"0": "x", "1": "y", "3": "z"}, "does not name each"),
            ({"0": "x", "1": "y", "2": 7}, "label 2 is 7, not text"),
            ({"0": "x", "1": "y", "2": "z" * 10_000}, "at most 5000"),
            (["x", "y", "z"], "does not name each"),
            (None, r"config.json requires \[2, 32\]"),
        )
    ),
    ({"problem_type": "guessing"}, "problem_type is 'guessing'"),
    ({"problem_type": {}}, "problem_type"),
    ({"id2label": None, "num_labels": 10**30}, "num_labels"),
    ({"id2label": None, "num_labels": "3"}, "num_labels"),
    *(
        (without(name), f"lacks {name.removeprefix('bert.')}")
        for name in ("classifier.weight", "classifier.bias", "bert.pooler.dense.bias")
    ),
]


@pytest.mark.parametrize(("spoil", "why"), SPOILED, ids=range(len(SPOILED)))
def test_a_head_that_does_not_fit_is_refused_and_the_maps_are_still_there(spoil, why, made):
    """The reason is given once, in one line."""
    directory = made("ForSequenceClassification", num_labels=3)
    spoil(directory) if callable(spoil) else edit_config(directory, **spoil)
    model = opened(directory)
    with pytest.raises(RequestError, match=why) as caught:
        model.predict("the cat")
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 300
    with pytest.warns(Notice, match=why) as said:
        assert model.attend("the cat", predict=True).prediction is None
    assert len(said) == 1


def test_words_of_which_a_part_is_missing_are_not_offered(made):
    directory = made("ForMaskedLM")
    change_tensors(directory, lambda tensors: tensors.pop("cls.predictions.transform.LayerNorm.weight"))
    model = opened(directory)
    assert model.outputs() == {}
    with pytest.raises(RequestError, match=r"lacks cls.predictions.transform.LayerNorm.weight"):
        model.predict("the [MASK]", output="words")


def test_the_table_of_tokens_stands_for_scores_only_where_it_is_tied(made):
    directory = made("ForMaskedLM")
    tied = opened(directory)
    assert tied.outputs()["words"].network.scores.weight is tied.network.embeddings.tokens.weight
    edit_config(directory, tie_word_embeddings=False)
    with pytest.raises(RequestError, match=r"lacks cls.predictions.decoder.weight"):
        opened(directory).predict("the [MASK]", output="words")
    own = {"cls.predictions.decoder.weight": torch.zeros(tied.config.vocab_size, 32)}
    change_tensors(directory, lambda tensors: tensors.update(own))
    prediction = opened(directory).predict("the [MASK]", output="words")
    assert (prediction.values == prediction.values[0]).all()  # the bias alone


def test_heads_are_not_read_before_they_are_used(made, monkeypatch):
    """`run` on an encoder starts no slower for a head that nobody asks for."""
    model = opened(made("ForSequenceClassification", num_labels=3))
    read = []
    monkeypatch.setattr(model.checkpoint, "read", lambda name, dtype: read.append(name) or 1 / 0)
    assert list(model.outputs()) == ["classes"] and read == []


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path):
    """ModernBERT's keys of heads, which hand-written configurations have not."""
    folder = make_checkpoint(tmp_path, "modernbert", head="ForSequenceClassification")
    keys = ("classifier_bias", "classifier_pooling", "classifier_activation", "decoder_bias")
    whole = load_model(str(folder), "cpu").predict("the cat").values
    edit_config(folder, **dict.fromkeys(keys))
    assert load_model(str(folder), "cpu").predict("the cat").values.tolist() == whole.tolist()
