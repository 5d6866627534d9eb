"""Inside transformers' networks: masks of every layer, norms beside hooks, and no map that is not asked for."""

import json

import numpy as np
import pytest
import torch
from by_hand import ByHand
from foreign_checkpoints import LAYERED, attend, make_foreign
from measuring import Watch
from small_networks import make_small

from attncli import RequestError, load_model, load_record
from attncli.record import Request
from attncli.record.grouping import merge_words
from attncli.record.selection import Grouping

# --- masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", LAYERED)
def test_some_layers_bring_their_own_masks(foreign, family, tmp_path):
    model = foreign(family)
    whole, some = attend(model), attend(model, layers="2,1", heads=0)
    assert np.array_equal(some.masks, whole.masks[[2, 1]])
    assert np.array_equal(some.masks, whole.select([2, 1]).masks)
    for record in (whole, some):
        record.save(tmp_path / "maps.safetensors")
        assert np.array_equal(load_record(tmp_path / "maps.safetensors").masks, record.masks)


# --- memory ----------------------------------------------------------------------------------------------


LENGTH = 512


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """Three layers of four heads over two key heads, with room for LENGTH tokens."""
    directory = make_foreign(tmp_path_factory.mktemp("long") / "llama", "llama")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": LENGTH}))
    return load_model(str(directory), device="cpu", engine="transformers")


@pytest.mark.slow
@pytest.mark.parametrize("predict", [True, False])
def test_one_head_of_a_decoder_allocates_one_heads_maps(llama, predict):
    """Predict, so that the walk goes on to the last layer; the logits are those of the last token."""
    tokens = llama.tokenizer.encode("the cat sat on the mat " * LENGTH).take(range(LENGTH))
    with Watch() as watch:
        [record] = llama.attend_tokens([tokens], Request("1", "2", predict=predict))
    one_map = 4 * LENGTH**2
    assert record.weights.nbytes == one_map and (record.prediction is not None) == predict
    assert one_map <= max(watch.sizes) < 2 * one_map
    assert (LENGTH, len(llama.network.lm_head.weight)) not in {shape[-2:] for shape in watch.shapes}


# --- norms -----------------------------------------------------------------------------------------------


SENTENCE, TARGET = "the cat sat", "a cat on a mat"
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
    ids, fed = theirs.tokenizer(SENTENCE).input_ids, None
    asked = {"which": part} if theirs.paired else {}
    if theirs.paired:
        goal = theirs.tokenizer(text_target=TARGET).input_ids
        fed = [theirs.network.config.decoder_start_token_id, *goal[:-1]]
        asked["target"] = None if part == "encoder" else TARGET
    expected = theirs.norms(ids, fed).numpy()
    record = model.attend(SENTENCE, measure="norm", **asked)
    assert record.measure == "norm"
    np.testing.assert_allclose(record.weights, expected, atol=1e-5 * expected.max())
    some = model.attend(SENTENCE, layers=[1, 0], heads=[1, 0], measure="norm", **asked)
    np.testing.assert_allclose(some.weights, expected[[1, 0]][:, [1, 0]], atol=1e-5 * expected.max())
    request = Request(measure="norm", grouping=Grouping(unit="word"), **asked)
    [words] = model.attend_tokens([model.tokenizer.encode(SENTENCE)], request)
    np.testing.assert_allclose(words.weights, merge_words(record).weights, atol=1e-5 * expected.max())
    plain = model.attend(SENTENCE, **asked)
    assert np.abs(record.weights - plain.weights).max() > 0.1


def test_norms_of_gated_attention_are_refused_in_one_line(tmp_path):
    """Qwen3-Next multiplies what heads give with a gate before the output projection."""
    model = load_model(str(make_small(tmp_path, "qwen3_next")), device="cpu", engine="transformers")
    with pytest.raises(RequestError, match="norms need the output projection") as refused:
        model.attend(SENTENCE, measure="norm")
    assert "\n" not in str(refused.value)
    assert model.attend(SENTENCE, layers=-1).weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
