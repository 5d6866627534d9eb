"""Peculiarities of EuroBERT: heads that share keys, norms without the mean, and its config.json."""

import json

import pytest
import torch
from checkpoints import edit_config, make_checkpoint, make_config, make_network
from walks import CPU, made_up, network_of, walked

from attncli import load_model
from attncli.models import network as linear
from attncli.models.config import ModelConfig
from attncli.models.families.family import Biases, Turned
from attncli.models.head import one_head
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")
# As published: EuroBERT-610m, in the words of before transformers 5.
OLD = {
    "model_type": "eurobert",
    "head_dim": 64,
    "hidden_size": 1152,
    "intermediate_size": 4096,
    "num_attention_heads": 18,
    "num_hidden_layers": 3,
    "num_key_value_heads": 6,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 250000,
}


def read(**changes):
    return ModelConfig.from_dict({**OLD, **changes})


def test_what_a_published_file_says():
    config = read()
    assert config.positions == (Turned(64, 250000.0),) * 3 and not config.position_table and config.segments == 0
    assert (config.heads, config.key_heads, config.head_dim) == (18, 6, 64)
    assert config.rms_norm and config.norm_first and config.first_norm and not config.embedding_norm
    assert config.gated and config.activation == "silu" and config.biases == Biases(False, False, False)
    assert (config.max_tokens, config.vocab_size, config.pad_id) == (8192, 128256, 128001)
    assert config.document()["key_value_heads"] == 6 and config.document()["rotary_bases"] == [250000.0]


def test_where_a_walk_ends_no_shared_key_is_made_twice(monkeypatch):
    """Heads 0 and 1 share a key: their queries are of 16 elements, and it is of 8."""
    from torch.utils.flop_counter import FlopCounterMode

    monkeypatch.setattr(linear, "ONEDNN_LINEAR", None)  # torch's counter does not know that operator
    network, counts = network_of(make_network(make_config("eurobert"))), {}
    for heads in ([0], [0, 1], [0, 2]):
        with FlopCounterMode(display=False) as counter:
            walked(network, [made_up([3, 4])], "none", [0], heads)
        products = counter.get_flop_counts()["Global"].items()
        counts[tuple(heads)] = sum(
            count for product, count in products if "mm" in str(product) and "bmm" not in str(product)
        )
    per_head = 2 * 2 * 32 * 8
    assert counts == {(0,): 2 * per_head, (0, 1): 3 * per_head, (0, 2): 4 * per_head}


def test_a_pad_that_ends_texts_too_is_told_by_its_place(tmp_path):
    """Use the published [PAD], which is also the token at the end, and real there."""
    directory = make_checkpoint(tmp_path / "euro", "eurobert", pad_token_id=0)
    edit_config(directory, pad_token_id=2)
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": "<|end_of_text|>"}))
    model = load_model(str(directory), device="cpu")
    whole, padded = (model.tokenizer.encode("the cat", pad_to=count) for count in (None, 14))
    assert whole.text[-1] == padded.text[-1] == "<|end_of_text|>"
    assert not any(whole.padding) and padded.padding == [False] * len(whole) + [True] * (14 - len(whole))
    reference = load_reference(directory, CPU, torch.float32)
    theirs, _ = reference.run(padded, "padding")
    record = model.attend("the cat", layers="all", pad_to=14)
    torch.testing.assert_close(torch.from_numpy(record.weights), torch.stack(theirs), rtol=0, atol=1e-5)


def test_a_head_taken_apart_says_who_shares_its_keys(tiny):
    model = load_model(str(tiny("eurobert")), device="cpu")
    heads = [one_head(model, model.tokenizer.encode("the cat sat"), 1, head, "padding") for head in range(4)]
    assert [one.group for one in heads] == [range(2), range(2), range(2, 4), range(2, 4)]
    assert (heads[2].key == heads[3].key).all() and (heads[2].value == heads[3].value).all()
    assert abs(heads[1].key - heads[2].key).max() > 0.1 and abs(heads[2].query - heads[3].query).max() > 0.1
