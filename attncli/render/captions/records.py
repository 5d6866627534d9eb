"""What is said of a record: its model, and how many tokens it has."""

from collections.abc import Mapping
from typing import Any

from attncli.base.printable import printable
from attncli.record import AttentionRecord
from attncli.text.tokens import Tokens


def model_name(name: str) -> str:
    """A model's name without the folders that lead to it."""
    return printable(name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name)


def model_shown(model: Mapping[str, Any]) -> str:
    """The same of a document's model, with what was done to it."""
    return model_name(f"{model['name']} {model.get('changes', '')}".strip())


def record_size(record: AttentionRecord) -> str:
    """How many tokens, [PAD] counted apart."""
    if record.key_tokens is not None:
        return f"{token_count(record.tokens)} to {token_count(record.key_tokens)}"
    return token_count(record.tokens)


def token_count(tokens: Tokens) -> str:
    """16 tokens + 2 [PAD]"""
    padding = sum(tokens.padding)
    count = len(tokens) - padding
    return f"{count} token{'' if count == 1 else 's'}" + (f" + {padding} [PAD]" if padding else "")
