"""Sentence embeddings: those of sentence-transformers, from the same files; and files that say what can't be done."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from sentences import NORMALIZE, dense, pooling, write_modules

from attncli import RequestError, load_model
from attncli.models.output import POOLINGS

TEXTS = ["the cat sat on", "it is too big", "the unbelievable cat sat on the big cat and on it", "cat"]
MADE = {
    "mean": [pooling("mean_tokens")],
    "cls": [pooling("cls_token"), NORMALIZE],
    "max": [pooling("max_tokens"), NORMALIZE],
    "square root": [pooling("mean_sqrt_len_tokens")],
    "weighted": [pooling("weightedmean_tokens"), NORMALIZE],
    "last": [pooling("lasttoken")],
    "two": [pooling("cls_token", "mean_tokens"), NORMALIZE],
    "none named": [pooling()],
    "version 6": [
        ("Pooling", {"embedding_dimension": 32, "pooling_mode": ["mean", "max"]}),
        ("Dropout", {"dropout": 0.1}),
    ],
    "dense": [pooling("mean_tokens"), dense(32, 20), NORMALIZE],
    "two dense": [
        pooling("mean_tokens"),
        dense(32, 20, "linear.Identity", bias=False),
        dense(20, 8, "activation.GELU"),
        NORMALIZE,
    ],
}


@pytest.fixture
def folder(tmp_path):
    """`folder(*modules)` -> a small checkpoint with these modules after it."""

    def make(*modules, longest: int | None = None, family: str = "bert") -> Path:
        return write_modules(make_checkpoint(tmp_path / "made", family), *modules, longest=longest)

    return make


def theirs(directory: Path | str) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
        return SentenceTransformer(str(directory), device="cpu").encode(TEXTS)


def assert_same(directory: Path, expected: np.ndarray) -> None:
    """Compare within 1e-6, relative to the largest number if that is above 1."""
    ours = load_model(str(directory), "cpu").embed(TEXTS)
    np.testing.assert_allclose(ours, expected, atol=1e-6 * max(1.0, np.abs(expected).max()), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("modules", MADE.values(), ids=MADE)
def test_embeddings_are_those_of_sentence_transformers(modules, folder):
    directory = folder(*modules, longest=9)
    assert_same(directory, theirs(directory))


@pytest.mark.slow
def test_of_other_families_too_and_as_saved_by_version_6(folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    directory = folder(*MADE["dense"], longest=9, family="roberta")
    SentenceTransformer(str(directory), device="cpu").save(str(tmp_path / "saved"))
    assert "max_seq_length" not in (tmp_path / "saved" / "sentence_bert_config.json").read_text()
    for one in (directory, tmp_path / "saved"):
        assert_same(one, theirs(directory))


@pytest.mark.slow
def test_prompts_and_lower_case(folder):
    directory = folder(*MADE["mean"])
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 30, "do_lower_case": True}))
    prompts = {"prompts": {"query": "The big: ", "other": ""}, "default_prompt_name": "query"}
    (directory / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert_same(directory, theirs(directory))


def test_minilm_has_an_embedding_and_no_prediction(minilm):
    """The mean of all tokens but [PAD], normalised, as its modules.json says."""
    assert list(minilm.outputs()) == ["embedding"] and not minilm.available_outputs.refused
    [state] = minilm.last_hidden([minilm.tokenizer.encode(TEXTS[0])])
    mean = state.mean(dim=0)
    np.testing.assert_allclose(minilm.embed(TEXTS[:1])[0], mean / mean.norm(), atol=1e-6)
    padded = minilm.predict(TEXTS[0], pad_to=20)
    np.testing.assert_allclose(padded.values, minilm.embed(TEXTS[:1])[0], atol=1e-6)
    assert (padded.kind, padded.labels, padded.probabilities) == ("embedding", [], None)
    assert minilm.attend(TEXTS[0], predict=True).prediction is None


def test_poolings_by_hand():
    vectors = torch.tensor([[1.0, -2.0], [3.0, 4.0], [2.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    by_hand = {
        "cls": [1, -2],
        "max": [3, 5],
        "mean": [2, 2],
        "mean_sqrt_len_tokens": [4, 4],
        "weightedmean": [(1 + 6 + 6 + 8) / 10, (-2 + 8 + 3 + 20) / 10],
        "lasttoken": [2, 5],
    }
    assert {name: pool(vectors).tolist() for name, pool in POOLINGS.items()} == by_hand


def test_no_more_tokens_are_read_than_the_files_say(folder):
    model = load_model(str(folder(*MADE["mean"], longest=6)), "cpu")
    with pytest.warns(match="kept the first 6 of"):
        whole = model.embed(TEXTS[2:3])
    np.testing.assert_allclose(whole, model.embed(["the unbelievable"]), atol=1e-6)


# --- what is refused ------------------------------------------------------------------------------------

ENCODER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
LISTS = [
    ("{", "does not define an embedding"),
    ({"a": 1}, "not a list"),
    ([5], "not an object"),
    ([POOLING], "its first module is not the encoder"),
    ([ENCODER], "no Pooling follows"),
    ([ENCODER, {**POOLING, "path": "../other"}], "not a folder in the model's own directory"),
    ([ENCODER, {**POOLING, "type": "modeling_evil.Pooling"}], "is not run"),
    (
        [ENCODER, POOLING, {**POOLING, "type": "sentence_transformers.models.LSTM"}],
        "not support the module 'LSTM'",
    ),
]
SETTINGS = [
    (pooling("mean_tokens", size=31), "whose size is not"),
    (("Pooling", {"word_embedding_dimension": 32, "pooling_mode_cls_token": "yes"}), "not true or false"),
    (("Pooling", {"embedding_dimension": 32, "pooling_mode": ["mean", "best"]}), "not some of cls"),
    (dense(31, 20), "its input has 32"),
    (dense(32, 10**7), "not a whole number"),
    (dense(32, 20, "activation.Evil"), "activation_function is"),
    (("Dense", {**dense(32, 20)[1], "use_residual": True}), "use_residual"),
    (("Dense", {**dense(32, 20)[1], "module_input_name": "token_embeddings"}), "module_input_name"),
]


def refusal(directory: Path) -> str:
    model = load_model(str(directory), "cpu")
    assert model.outputs() == {} and model.attend("the cat", predict=True).prediction is None
    with pytest.raises(RequestError) as caught:
        model.embed(["the cat"])
    message = str(caught.value)
    assert message.isprintable() and len(message) <= 300
    return message


@pytest.mark.parametrize(("modules", "why"), LISTS, ids=range(len(LISTS)))
def test_a_list_of_modules_that_is_none(modules, why, folder):
    directory = folder(*MADE["mean"])
    (directory / "modules.json").write_text(modules if isinstance(modules, str) else json.dumps(modules))
    assert why in refusal(directory)


@pytest.mark.parametrize(("module", "why"), SETTINGS, ids=range(len(SETTINGS)))
def test_modules_with_settings_that_cannot_be(module, why, folder, monkeypatch):
    monkeypatch.setattr("sentences.write_dense", lambda *_: None)
    before = [] if module[0] == "Pooling" else [pooling("mean_tokens")]
    assert why in refusal(folder(*before, module))


def test_a_dense_whose_tensors_are_of_another_shape(folder):
    directory = folder(*MADE["dense"])
    settings = {**dense(32, 19)[1]}
    (directory / "2_Dense" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(RequestError, match=r"linear.weight has the shape \[20, 32\], not \[19, 32\]"):
        load_model(str(directory), "cpu").embed(["the cat"])
    (directory / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(RequestError, match="has no weights"):
        load_model(str(directory), "cpu").embed(["the cat"])


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("sentence_bert_config.json", {"max_seq_length": "many"}, "not a number of tokens"),
        ("sentence_bert_config.json", [], "not a JSON object"),
        ("sentence_bert_config.json", {"do_lower_case": 1}, "not true or false"),
        ("config_sentence_transformers.json", {"default_prompt_name": "x", "prompts": {}}, "have no 'x'"),
    ],
)
def test_settings_beside_the_modules_that_cannot_be(name, settings, why, folder):
    directory = folder(*MADE["mean"])
    (directory / name).write_text(json.dumps(settings))
    with pytest.raises(RequestError, match=why):
        load_model(str(directory), "cpu").embed(["the cat"])


def test_a_prompt_that_is_not_pooled(folder):
    directory = folder(("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": False}))
    prompts = {"prompts": {"query": "the big"}, "default_prompt_name": "query"}
    (directory / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with pytest.raises(RequestError, match="from the pooling"):
        load_model(str(directory), "cpu").embed(["the cat"])
