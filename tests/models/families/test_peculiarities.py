"""Peculiarities of families: EuroBERT, ModernBERT, the first DeBERTa, ALBERT and RoFormer."""

import json

import numpy as np
import pytest
import torch
from checkpoints import MERGES, byte_vocabulary, edit_config, make_checkpoint
from safetensors.torch import load_file, save_file
from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding
from walks import CPU

from attncli import RequestError, load_model
from attncli.attention import Rotary
from attncli.models.config import ModelConfig
from attncli.models.transformers_peer import load_reference
from attncli.text.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("exact")

# --- EuroBERT --------------------------------------------------------------------------------------------


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


# --- ModernBERT ------------------------------------------------------------------------------------------


def test_what_a_file_of_before_transformers_5_says():
    data = {"model_type": "modernbert", "num_hidden_layers": 7, "local_attention": 128}
    bases = {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    config = ModelConfig.from_dict({**data, **bases, "position_embedding_type": "sans_pos"})
    assert config.reach == (None, 64, 64, None, 64, 64, None)
    assert [one.base for one in config.positions] == [1.6e5, 1e4, 1e4, 1.6e5, 1e4, 1e4, 1.6e5]
    assert {one.rotated for one in config.positions} == {64} and not config.positions[0].interleaved
    assert not any(config.biases) and not config.first_norm and config.norm_first and config.gated
    document = config.document()
    assert (document["positions"], document["window"], document["global_layers"]) == ("rotary", 64, [0, 3, 6])
    assert document["rotary_bases"] == [1e4, 1.6e5]


# --- DeBERTa ---------------------------------------------------------------------------------------------


def test_its_published_tokenizer(tmp_path):
    """vocab.json and merges.txt with BERT's marks: pairs are as BERT's, and no mark is added to the vocabulary."""
    names = {"<s>": "[CLS]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]", "<pad>": "[PAD]"}
    tokens = [names.get(token, token) for token in byte_vocabulary(0)]
    (tmp_path / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
    tokenizer = Tokenizer.from_directory(tmp_path, 512, len(tokens), 0, None)
    pair = tokenizer.encode("the cat", "on a [MASK]", pad_to=11)
    assert pair.text == ["[CLS]", "the", "Ġcat", "[SEP]", "on", "Ġa", "Ġ", "[MASK]", "[SEP]", "[PAD]", "[PAD]"]
    assert pair.segments == [0] * 4 + [1] * 5 + [0] * 2
    assert [tokens[number] for number in pair.ids] == pair.text
    assert tokenizer.backend.get_vocab_size() == len(tokens)


# --- ALBERT ----------------------------------------------------------------------------------------------


TEXT = "the cat sat on it, un believ able"


@pytest.mark.parametrize(
    ("layers", "said", "expected"),
    [(12, 4, "000111222333"), (5, 2, "00011"), (4, 3, "0012"), (3, 3, "012"), (7, 3, "0001122"), (2, 3, "01")],
)
def test_layers_are_of_groups(layers, said, expected):
    """The first of n groups begins the layers; where they don't go up evenly, it is as in the published code."""
    data = {"model_type": "albert", "num_hidden_layers": layers, "num_hidden_groups": said}
    config = ModelConfig.from_dict(data)
    names = [config.source(f"layers.{layer}.feed_forward.up").names[0] for layer in range(layers)]
    assert "".join(name.split(".")[2] for name in names) == expected


@pytest.mark.parametrize("many", [4, 40])
def test_weights_are_there_once_however_many_layers(tmp_path, many):
    """Take another dtype than the file's, so that nothing is only mapped; the layout for oneDNN is made once, too."""
    directory = make_checkpoint(tmp_path, "albert", num_hidden_layers=many)
    stored = load_file(directory / "model.safetensors")
    model = load_model(str(directory), "cpu", "float64")
    for _ in range(9):  # often enough that weights are laid out
        model.need(model.config.layers)
    held = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in model.network.parameters()}
    used = sum(2 * tensor.nbytes for name, tensor in stored.items() if not name.startswith("pooler"))
    assert sum(held.values()) == used
    assert len({id(layer) for layer in model.network.layers}) == 2


def test_a_head_is_silenced_in_its_layer_alone(tmp_path):
    """Whose weights the next layer has too."""
    model = load_model(str(make_checkpoint(tmp_path, "albert", num_hidden_groups=1)), "cpu", "float64")
    tokens = model.tokenizer.encode(TEXT)
    joins, columns = model.network.layer(0).attention.output, slice(8, 16)  # of head 1
    assert all(model.network.layer(layer).attention.output is joins for layer in range(4))
    plain = [one.numpy() for one in model.hidden_states(tokens)]
    changed = [one.numpy() for one in model.without("1.1").hidden_states(tokens)]
    np.testing.assert_array_equal(changed[1], plain[1])
    assert np.abs(changed[2] - plain[2]).max() > 1e-3
    calls = []

    def zero(module, inputs):
        calls.append(module)
        if len(calls) == 2:
            inputs[0][..., columns] = 0

    joins.register_forward_pre_hook(zero)
    for ours, expected in zip(changed, model.hidden_states(tokens), strict=True):
        np.testing.assert_allclose(ours, expected.numpy(), atol=1e-12)
    assert len(calls) == 4


# --- RoFormer --------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("family", "kind", "why"),
    [
        ("roformer", None, "splits words with rjieba.*add --engine transformers"),
        ("roformer", "RoFormerTokenizerFast", "splits words with rjieba.*add --engine transformers"),
        ("bert", "BertJapaneseTokenizer", "a Japanese dictionary"),
    ],
)
def test_a_tokenizer_that_goes_by_a_dictionary_is_refused(tmp_path, family, kind, why):
    """By the model type where no file names it, as transformers does."""
    directory = make_checkpoint(tmp_path / "it", family)
    settings = directory / "tokenizer_config.json"
    settings.write_text(json.dumps({"tokenizer_class": kind} if kind else {}))
    with pytest.raises(RequestError, match=why):
        load_model(str(directory), device="cpu")
    settings.write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    assert load_model(str(directory), device="cpu").tokenizer.encode("the cat").text[1:3] == ["the", "cat"]
