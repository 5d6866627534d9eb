"""Peculiarities of RoFormer: interleaved pairs, rotated values, its table, and its tokenizer."""

import json

import pytest
import torch
from checkpoints import make_checkpoint, make_config, make_network
from safetensors.torch import load_file, save_file
from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding
from walks import CPU, made_up, network_of, walked

from attncli import RequestError, load_model
from attncli.attention import Rotary
from attncli.models.config import ModelConfig
from attncli.models.transformers_peer import Reference, load_reference

pytestmark = pytest.mark.usefixtures("exact")


def read(**changes):
    return ModelConfig.from_dict({"model_type": "roformer", **changes})


@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize("turns", [False, True])
def test_values_are_turned_where_it_says_so(turns, mask):
    reference = Reference(make_network(make_config("roformer", rotary_value=turns)), CPU, torch.float64)
    text = made_up(list(range(3, 23)), [True] * 17 + [False] * 3)
    [weights], [states] = walked(network_of(reference.network, torch.float64), [text], mask, whole=True)[:2]
    theirs, their_states = map(torch.stack, reference.run(text, mask))
    torch.testing.assert_close(weights, theirs, rtol=0, atol=1e-12)
    torch.testing.assert_close(states, their_states, rtol=0, atol=1e-11)


def test_angles_are_those_of_its_table_to_the_last_bit_of_float32():
    """Far along, angles that were computed in float32 are off by some 1e-5."""
    table = RoFormerSinusoidalPositionalEmbedding(1536, 64).create_weight()
    sin, cos = table.chunk(2, dim=-1)
    for exact, near in ((True, 2**-24), (False, 1e-3)):
        angles = Rotary(64, interleaved=True, exact=exact).angles(torch.arange(1536), torch.float32)
        off = max(float((ours - theirs).abs().max()) for ours, theirs in zip(angles, (cos, sin), strict=True))
        assert off <= near and (off > 1e-6) != exact


def test_a_checkpoint_without_the_table_is_the_same_one(tmp_path):
    directory = make_checkpoint(tmp_path / "it", "roformer")
    text = "the cat sat on"
    before = load_model(str(directory), device="cpu").attend(text).weights
    tensors = load_file(directory / "model.safetensors")
    del tensors["encoder.embed_positions.weight"]
    save_file(tensors, str(directory / "model.safetensors"), {"format": "pt"})
    model = load_model(str(directory), device="cpu")
    assert (model.attend(text).weights == before).all()
    theirs, _ = load_reference(directory, model.device, model.dtype).run(model.tokenizer.encode(text), "padding")
    torch.testing.assert_close(torch.from_numpy(before), torch.stack(theirs), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "read"), [(None, False), ("RoFormerTokenizerFast", False), ("BertTokenizer", True)])
def test_a_tokenizer_that_goes_by_a_dictionary_is_refused(tmp_path, kind, read):
    """By the model type where no file names it, as transformers does."""
    directory = make_checkpoint(tmp_path / "it", "roformer")
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind} if kind else {}))
    if read:
        assert load_model(str(directory), device="cpu").tokenizer.encode("the cat").text[1:3] == ["the", "cat"]
        return
    with pytest.raises(RequestError, match=r"splits words with rjieba.*add --engine transformers"):
        load_model(str(directory), device="cpu")


def test_so_is_a_japanese_one(tmp_path):
    directory = make_checkpoint(tmp_path / "it", "bert")
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertJapaneseTokenizer"}))
    with pytest.raises(RequestError, match="a Japanese dictionary"):
        load_model(str(directory), device="cpu")
