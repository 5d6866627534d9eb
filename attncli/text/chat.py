"""Apply a checkpoint's chat template: text around a message, as its model was trained to read it.

A template is a program in a checkpoint. It runs in jinja2's sandbox, with the functions that transformers gives it, and
nothing else of it is run.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.base.untrusted import read_json, read_regular

SETTINGS_FILE, TEMPLATE_FILE = "tokenizer_config.json", "chat_template.jinja"
_LONGEST_FILE = 2**22  # bytes
_LONGEST_PROMPT = 2**20  # characters
_MARKS = ("bos_token", "eos_token", "unk_token", "pad_token")


def chat_prompt(directory: Path, message: str) -> str:
    """Return the text in which a checkpoint expects a user's message and begins its answer.

    Raises RequestError if the checkpoint has no chat template, or its template can't be applied.
    """
    settings = _settings_of(directory)
    template = _template_of(directory, settings)
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    sandbox.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    sandbox.globals.update(raise_exception=_refuse, strftime_now=lambda form: datetime.now().strftime(form))
    marks = {name: _content(settings.get(name)) for name in _MARKS}
    made, size = [], 0
    try:
        messages = [{"role": "user", "content": message}]
        for piece in sandbox.from_string(template).generate(messages=messages, add_generation_prompt=True, **marks):
            made.append(piece)
            size += len(piece)
            if size > _LONGEST_PROMPT:
                raise ValueError(f"it writes more than {_LONGEST_PROMPT:,} characters")
    except Exception as error:
        raise RequestError(f"the chat template in {directory} fails: {first_line(error)}") from error
    return "".join(made)


def _settings_of(directory: Path) -> dict[str, Any]:
    path = directory / SETTINGS_FILE
    if not path.is_file():
        return {}
    try:
        settings = read_json(path, _LONGEST_FILE, infinite=True)
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} can't be read: {first_line(error)}") from error
    return settings if isinstance(settings, dict) else {}


def _template_of(directory: Path, settings: dict[str, Any]) -> str:
    """Return the template from a file of its own, or from the settings; of several there, the one named "default"."""
    path = directory / TEMPLATE_FILE
    if path.is_file():
        if path.stat().st_size > _LONGEST_FILE:
            raise RequestError(f"{path} is longer than {_LONGEST_FILE:,} bytes")
        return read_regular(path).decode("utf-8", errors="replace")
    stated = settings.get("chat_template")
    if isinstance(stated, list):
        named = {one.get("name"): one.get("template") for one in stated if isinstance(one, dict)}
        stated = named.get("default")
    if not isinstance(stated, str):
        raise RequestError(f"{directory} has no chat template, so it was not trained on chats: leave --chat out")
    return stated


def _content(mark: Any) -> str:
    """Return a special token that is stated as a text or an object."""
    stated = mark.get("content") if isinstance(mark, dict) else mark
    return stated if isinstance(stated, str) else ""


def _refuse(message: str) -> None:
    raise ValueError(message)
