"""Random weights: the same every time, and such that a mistake shows."""

import copy
import json

import pytest
import torch
from checkpoints import FAMILIES, TURNED, compare, make_config

from attncli import RequestError
from attncli.models.hub import NotOnThisMachine
from attncli.models.random import random_model

TEXT = "The trophy does not fit in the suitcase because it is too big."


@pytest.fixture
def architecture(tmp_path):
    """`architecture("roberta")` -> a directory with nothing but a small config.json."""

    def make(family="bert", **changes):
        changes = {"max_position_embeddings": 90, "vocab_size": 300, "layer_norm_eps": 1e-12, **changes}
        if family == "distilbert":
            del changes["layer_norm_eps"]
        config = make_config(family, **changes)
        config.save_pretrained(tmp_path)
        return str(tmp_path)

    return make


def weights_of(model, text=TEXT):
    return torch.tensor(model.attend(text).weights)


def test_a_seed_is_a_model(architecture):
    directory = architecture()
    first, second, other = (random_model(directory, "cpu", seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(weights_of(first), weights_of(second))
    assert not torch.allclose(weights_of(first), weights_of(other), atol=0.01)


def test_the_random_numbers_of_others_are_left_alone(architecture):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    random_model(architecture(), "cpu")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("hidden_size", [32, 256])
def test_maps_are_peaked_in_every_layer(architecture, family, hidden_size):
    model, _ = random_model(architecture(family, hidden_size=hidden_size, num_hidden_layers=12), "cpu")
    weights = weights_of(model)  # [layer, head, query, key]
    uniform = 1 / weights.shape[-1]
    assert (weights.amax(dim=-1).mean(dim=(1, 2)) > 4 * uniform).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_matters(architecture, family):
    """Whichever of transformers' tensors is forgotten, the comparison shows it. Save one kind: a bias of the keys
    adds the same number to all scores of a query, and softmax does not see it."""
    model, reference = random_model(architecture(family), "cpu")
    tokens = [model.tokenizer.encode(TEXT, "It is.", 84)]
    assert compare(model, tokens, reference=reference).same
    reference.network = copy.deepcopy(reference.network)  # it shares its tensors with our model
    unseen, there = [], reference.network.state_dict()
    for name, tensor in there.items():
        before = tensor.clone()
        tensor.copy_(1.0 if before.dim() == 1 and name.endswith("weight") else 0.0)
        if compare(model, tokens, reference=reference).same:
            unseen.append(name)
        tensor.copy_(before)
    assert compare(model, tokens, reference=reference).same
    of_keys = ("key.bias", "k_lin.bias", ".k.bias", "pos_key_proj.bias", "k_proj.bias")
    assert all("pooler." in name or name.endswith(of_keys) for name in unseen), unseen
    biased = any(name.endswith(of_keys) for name in there)  # of what is turned it matters where a key stands
    assert any(name.endswith(of_keys) for name in unseen) == (biased and family not in TURNED)


def test_an_alias_that_is_not_here_needs_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, reference = random_model("electra-small", "cpu")
    assert (model.info.layers, model.info.heads, model.info.hidden_size) == (12, 4, 256)
    assert reference.network.config.embedding_size == 128
    assert model.tokenizer.encode("The cat").text == ["[CLS]", "the", "cat", "[SEP]"]  # minilm's vocabulary
    assert list(tmp_path.iterdir()) == []


def test_without_a_vocabulary_a_token_is_a_byte(architecture):
    model, _ = random_model(architecture("roberta"), "cpu")
    tokens = model.tokenizer.encode("Aé", None, 7)
    assert tokens.text == ["[CLS]", "A", "Ã", "©", "[SEP]", "[PAD]", "[PAD]"]
    assert tokens.ids[-1] == 1  # where RoBERTa has it


def test_what_can_not_be_built_is_said(tmp_path):
    with pytest.raises(RequestError, match="no model 'nothing-like-it'"):
        random_model("nothing-like-it")
    with pytest.raises(NotOnThisMachine):
        random_model("some/repository")
    with pytest.raises(RequestError, match=r"config\.json"):
        random_model(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "opt"}))
    with pytest.raises(RequestError, match="opt"):
        random_model(str(tmp_path))
