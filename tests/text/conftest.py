"""Tokenizers of every kind: their files, this program's reading of them, and transformers'."""

import json

import pytest
from checkpoints import write_tokenizer
from tokenizing import ours

from attncli.models.hub import locate


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    made = {"minilm": locate("minilm").path}
    for kind, family in {
        "vocab.txt": "bert",
        "cased": "bert",
        "vocab.json": "roberta",
        "tokenizer.json": "distilbert",
    }.items():
        made[kind] = tmp_path_factory.mktemp("tokenizer")
        write_tokenizer(made[kind], family, 0 if family != "roberta" else 1)
    settings_file = made["cased"] / "tokenizer_config.json"
    settings_file.write_text(json.dumps({"do_lower_case": False, "tokenize_chinese_chars": False}))
    (made["tokenizer.json"] / "tokenizer.json").write_text(
        cut_and_padded((made["tokenizer.json"] / "tokenizer.json").read_text())
    )
    return made


def cut_and_padded(tokenizer: str) -> str:
    """The settings that the default model's own file carries, and more so."""
    cut = {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0}
    pad = {"direction": "Right", "strategy": {"Fixed": 9}, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    pad["pad_to_multiple_of"] = None
    return json.dumps({**json.loads(tokenizer), "truncation": cut, "padding": pad})


@pytest.fixture(scope="module")
def both(directories):
    """Our tokenizer and transformers', by kind."""
    from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

    classes = {"tokenizer.json": PreTrainedTokenizerFast, "vocab.json": RobertaTokenizer}
    return {
        kind: (ours(directory), classes.get(kind, BertTokenizer).from_pretrained(directory))
        for kind, directory in directories.items()
    }


@pytest.fixture(scope="module")
def tiny_bytes(directories):
    """RoBERTa's kind."""
    return ours(directories["vocab.json"])
