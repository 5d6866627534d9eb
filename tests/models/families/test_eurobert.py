"""Peculiarities of EuroBERT: heads that share keys, norms without the mean, and its config.json."""

import json

import pytest
import torch
from checkpoints import edit_config, make_checkpoint
from walks import CPU

from attncli import load_model
from attncli.models.head import one_head
from attncli.models.transformers_peer import load_reference

pytestmark = pytest.mark.usefixtures("exact")


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
