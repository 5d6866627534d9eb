"""Apply a checkpoint's chat template: text around a message, as its model was trained to read it."""

from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, shorten
from attncli.base.untrusted import read_json, read_regular

SETTINGS_FILE, TEMPLATE_FILE = "tokenizer_config.json", "chat_template.jinja"
_LONGEST_FILE = 2**22  # bytes
_LONGEST_PROMPT = 2**20  # characters
_MARKS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def chat_prompt(directory: Path, message: str) -> str:
    """Return the text in which a checkpoint expects a user's message and begins its answer.

    A template is a program in a checkpoint. transformers runs it in jinja2's sandbox, which reaches no files.

    Raises RequestError if the checkpoint has no chat template, or its template fails or writes too much.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    settings = _settings_of(directory)
    stated = {name: settings.get(name) for name in _MARKS}
    contents = {name: mark.get("content") if isinstance(mark, dict) else mark for name, mark in stated.items()}
    marks = {name: token for name, token in contents.items() if isinstance(token, str)}
    messages = [{"role": "user", "content": message}]
    template = _template_of(directory, settings)
    try:
        [prompt], _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=True, **marks)
        if len(prompt) > _LONGEST_PROMPT:
            raise ValueError(f"it writes more than {_LONGEST_PROMPT:,} characters")
    except Exception as error:  # a template can raise any
        raise RequestError(f"the chat template in {directory} fails: {shorten(first_line(error), 200)}") from error
    return str(prompt)


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
        named = [one.get("template") for one in stated if isinstance(one, dict) and one.get("name") == "default"]
        stated = named[-1] if named else None
    if not isinstance(stated, str):
        raise RequestError(f"{directory} has no chat template, so it was not trained on chats: leave --chat out")
    return stated
