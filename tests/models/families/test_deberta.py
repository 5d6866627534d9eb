"""Peculiarities of the first DeBERTa: one matrix by head, its biases, its vectors of offsets, and its tokenizer."""

import json

from checkpoints import MERGES, byte_vocabulary

from attncli.models.config import ModelConfig
from attncli.text.tokenizer import Tokenizer

BASE = {
    "model_type": "deberta",
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_relative_positions": -1,
    "type_vocab_size": 0,
}


def read(**changes):
    return ModelConfig.from_dict({**BASE, **changes})


def test_keys_of_version_2_mean_nothing():
    """transformers passes over them."""
    assert read(position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True) == read()


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
