"""Norms inside transformers' networks, beside a direct computation of ‖α v W_O‖ with hooks on their modules."""

import numpy as np
import pytest
import torch
from by_hand import ByHand
from small_networks import make_small

from attncli import RequestError, load_model
from attncli.record import Request
from attncli.record.grouping import merge_words
from attncli.record.selection import Grouping

TEXT, TARGET = "the cat sat", "a cat on a mat"
QUICK = [("gpt2", "decoder"), ("llama", "decoder"), ("t5", "cross")]
SLOW = [
    *((name, "decoder") for name in ("gemma3", "gemma2", "gpt_oss", "opt")),
    ("esm", "encoder"),
    ("t5", "encoder"),
    ("t5", "decoder"),
    *(("bart", part) for part in ("encoder", "decoder", "cross")),
]


@pytest.mark.parametrize(("name", "part"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)])
def test_norms_are_those_of_what_a_token_brings(tmp_path, name, part):
    """Compare all heads, some in another order, and norms between words."""
    model = load_model(str(make_small(tmp_path, name)), device="cpu", engine="transformers")
    theirs = ByHand(model.place.path, part, torch.float32)
    ids, fed = theirs.tokenizer(TEXT).input_ids, None
    asked = {"which": part} if theirs.paired else {}
    if theirs.paired:
        goal = theirs.tokenizer(text_target=TARGET).input_ids
        fed = [theirs.network.config.decoder_start_token_id, *goal[:-1]]
        asked["target"] = None if part == "encoder" else TARGET
    expected = theirs.norms(ids, fed).numpy()
    record = model.attend(TEXT, measure="norm", **asked)
    assert record.measure == "norm"
    np.testing.assert_allclose(record.weights, expected, atol=1e-5 * expected.max())
    some = model.attend(TEXT, layers=[1, 0], heads=[1, 0], measure="norm", **asked)
    np.testing.assert_allclose(some.weights, expected[[1, 0]][:, [1, 0]], atol=1e-5 * expected.max())
    request = Request(measure="norm", grouping=Grouping(words=True), **asked)
    [words] = model.attend_tokens([model.tokenizer.encode(TEXT)], request)
    np.testing.assert_allclose(words.weights, merge_words(record).weights, atol=1e-5 * expected.max())
    plain = model.attend(TEXT, **asked)
    assert np.abs(record.weights - plain.weights).max() > 0.1


def test_norms_of_gated_attention_are_refused_in_one_line(tmp_path):
    """Qwen3-Next multiplies what heads give with a gate before the output projection."""
    model = load_model(str(make_small(tmp_path, "qwen3_next")), device="cpu", engine="transformers")
    assert model.can_be_tapped
    with pytest.raises(RequestError, match="norms need the output projection") as refused:
        model.attend(TEXT, measure="norm")
    assert "\n" not in str(refused.value)
    assert model.attend(TEXT, layers=-1).weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
