"""How sentence-transformers puts a text before a model: what stands before it, and how many tokens of it are read."""

import reprlib
from pathlib import Path
from typing import Any, NamedTuple

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.base.schema import Check, flag, maybe, text
from attncli.base.untrusted import read_json
from attncli.models.checkpoint_files import LONGEST_SETTINGS, PROMPTS_FILE, SENTENCE_FILES
from attncli.models.outputs.modules import modules_of
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens

LEAST = 3  # tokens: [CLS], a word and [SEP]


class Manner(NamedTuple):
    """prompt: what is put before every text; lower: whether its capitals are lost; most: tokens that are read."""

    prompt: str
    lower: bool
    most: int

    def tokens(self, tokenizer: Tokenizer, written: str) -> Tokens:
        """Raises RequestError as `Tokenizer.encode` does."""
        own = Tokenizer(
            tokenizer.backend, self.most, tokenizer.vocab_size, tokenizer.pad_id, tokenizer.notation, tokenizer.name
        )
        written = self.prompt + written
        return own.encode(written.lower() if self.lower else written)


def manner_of(directory: Path, max_tokens: int) -> Manner:
    """By the files beside modules.json. Raises RequestError where one is garbled, or a prompt is not to be pooled."""
    name = next((one for one in SENTENCE_FILES if (directory / one).is_file()), SENTENCE_FILES[0])
    lower = setting(directory / name, "do_lower_case", maybe(flag())) or False
    lengths = [
        setting(directory / name, "max_seq_length", length),
        setting(directory / "tokenizer_config.json", "model_max_length", length),  # where version 6 writes it
    ]
    most = next((one for one in lengths if one is not None), max_tokens)
    prompt = default_prompt(directory)
    if prompt and not modules_of(directory)[1].flag("include_prompt", True):
        what = f"it leaves its prompt {reprlib.repr(prompt)} out of the pooling"
        raise RequestError(f"{directory}: {what}, which attncli does not do")
    return Manner(prompt, lower, int(min(most, max_tokens)))


def default_prompt(directory: Path) -> str:
    """What is put before a text of which nobody says what it is for."""
    name = setting(directory / PROMPTS_FILE, "default_prompt_name", maybe(text()))
    if name is None:
        return ""
    return setting(directory / PROMPTS_FILE, "prompts", prompt_named(name))[name] or ""


def prompt_named(name: str) -> Check:
    """Prompts by their names, and this one among them."""

    def check(value: Any, what: str) -> None:
        if type(value) is not dict or name not in value:
            raise ValueError(f"{what} have no {reprlib.repr(name)}")
        maybe(text())(value[name], what)

    return check


def length(value: Any, what: str) -> None:
    """Tokens: a number, which may be far too large, as transformers writes it where there is no limit."""
    if value is not None and (type(value) not in (int, float) or not value >= LEAST):
        raise ValueError(f"{what} is {reprlib.repr(value)}, and not a number of tokens from {LEAST}")


def setting(path: Path, key: str, check: Check) -> Any:
    """What a file says; None where it says nothing, or is not there. Raises RequestError where that can't be."""
    if not path.is_file():
        return None
    try:
        stated = read_json(path, LONGEST_SETTINGS, infinite=True)
        if not isinstance(stated, dict):
            raise ValueError("it is not a JSON object")
        check(stated.get(key), key)
        return stated.get(key)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {first_line(error)}") from error
