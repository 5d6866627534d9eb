"""What is said of a record: the model's name, and how many tokens."""

from dataclasses import replace

import pytest
from hypothesis import given
from records import cross_records, record_of, tokens_of

from attncli.record.display import model_name, record_size, token_count


@pytest.mark.parametrize("name", ["/very/long/path/to/model", "model", "C:\\models\\mine\\"])
def test_a_model_is_named_without_its_folders(name):
    assert model_name(name) in ("model", "mine")


def test_a_models_name_is_harmless():
    assert model_name("evil\x1b[31m") == "evil\\x1b[31m"


def test_padding_is_counted_apart():
    assert token_count(tokens_of(9)) == "9 tokens"
    assert token_count(tokens_of(3).take([1])) == "1 token"
    assert token_count(tokens_of(9, padding=2)) == "7 tokens + 2 [PAD]"
    record = record_of([[0.5, 0.5], [1, 0]])
    assert record_size(record) == token_count(record.tokens)


@given(cross_records())
def test_keys_of_another_text_are_counted_too(record):
    assert record_size(record) == f"{len(record.tokens)} tokens to {len(record.keys)} tokens"
    assert record_size(replace(record, key_tokens=None)) == f"{len(record.tokens)} tokens"
