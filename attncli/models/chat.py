"""Apply a checkpoint's chat template: text around messages, as its model was trained to read it.

A template is a program in a checkpoint. transformers runs it in jinja2's sandbox, which limits neither time nor memory.
So it runs here in a separate process with both limits.
"""

import json
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line, printable, shorten
from attncli.base.untrusted import read_json, read_regular
from attncli.text.chats import Chat, Marked, located
from attncli.text.units import PartedText

SETTINGS_FILE, TEMPLATE_FILE = "tokenizer_config.json", "chat_template.jinja"
_LONGEST_FILE = 2**22  # bytes
_LONGEST_PROMPT = 2**20  # characters
_LONGEST_WORK = 5  # seconds of processor time
_LONGEST_WAIT = 30  # seconds, on a busy machine or without such limits
_MOST_MEMORY = 2**30  # bytes
_MARKS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from attncli.models.chat import render; render()"


def read_chat(path: Path) -> Chat:
    """Return the chat in a .json file. Raises RequestError if it can't be read, and as `Chat.of` does."""
    try:
        return Chat.of(read_json(path, _LONGEST_FILE))
    except (OSError, ValueError) as error:
        raise RequestError(f"{printable(str(path))} can't be read as JSON: {first_line(error)}") from error


def chat_text(directory: Path, chat: Chat) -> PartedText:
    """Return the text in which a checkpoint expects a chat, with a part for each message.

    If the last message is not the assistant's, the text ends where the model's answer begins. A Notice names messages
    that the template omits.

    Raises RequestError if the checkpoint has no chat template, or its template fails or exceeds the limits.
    """
    template, marks = _read_template(directory)
    marked = [Marked.of(chat, every) for every in (True, False)]
    job = {
        "template": template,
        "marks": marks,
        "chats": [chat, *(one.private for one in marked)],
        "answered": chat.messages[-1]["role"] == "assistant",
        "seconds": _LONGEST_WORK,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *sys.path],
            input=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST_WAIT,
            check=False,
        )
        slow = done.returncode == -getattr(signal, "SIGXCPU", 0)
    except subprocess.TimeoutExpired:
        slow = True
    if slow:
        why = f"it took more than {_LONGEST_WORK} seconds"
    elif done.returncode != 0:
        why = f"its process ended with exit code {done.returncode}"
    else:
        [plain, *others] = json.loads(done.stdout)
        if "prompt" in plain:
            prompts = [one.get("prompt") for one in others]
            parted, left_out = located(plain["prompt"], list(zip(marked, prompts, strict=True)))
            if left_out:
                names = ", ".join(map(printable, left_out))
                warnings.warn(f"the chat template omits {names}", Notice, stacklevel=2)
            return parted
        why = plain["why"]
    raise RequestError(f"the chat template in {directory} fails: {why}")


def _read_template(directory: Path) -> tuple[str, dict[str, str]]:
    """Return the template from its own file or from the settings, and the special tokens that the settings name."""
    settings: Any = {}
    path = directory / SETTINGS_FILE
    if path.is_file():
        try:
            settings = read_json(path, _LONGEST_FILE, infinite=True)
        except (OSError, ValueError) as error:
            raise RequestError(f"{path} can't be read: {first_line(error)}") from error
        settings = settings if isinstance(settings, dict) else {}
    stated = {name: settings.get(name) for name in _MARKS}
    contents = {name: mark.get("content") if isinstance(mark, dict) else mark for name, mark in stated.items()}
    marks = {name: token for name, token in contents.items() if isinstance(token, str)}
    path = directory / TEMPLATE_FILE
    if path.is_file():
        if path.stat().st_size > _LONGEST_FILE:
            raise RequestError(f"{path} is longer than {_LONGEST_FILE:,} bytes")
        return read_regular(path).decode("utf-8", errors="replace"), marks
    template = settings.get("chat_template")
    if isinstance(template, list):  # several templates with names
        named = [one.get("template") for one in template if isinstance(one, dict) and one.get("name") == "default"]
        template = named[-1] if named else None
    if not isinstance(template, str):
        raise RequestError(f"{directory} has no chat template, so it was not trained on chats: omit --chat")
    return template, marks


def render() -> None:
    """Read a template and its chats from stdin. Write each prompt, or the reason for having none, to stdout."""
    from transformers.utils.chat_template_utils import (
        render_jinja_template,
    )  # slow, so before the limit on the template's time

    job = json.load(sys.stdin)
    _limit(job["seconds"])
    made: list[dict[str, str]] = []
    for messages, tools in job["chats"]:
        made.append(prompt_of(render_jinja_template, job, messages, tools))
        if "why" in made[0]:
            break
    json.dump(made, sys.stdout)


def prompt_of(
    apply: Callable[..., Any], job: dict[str, Any], messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> dict[str, str]:
    """Apply a job's template to messages, with transformers' function.

    Return the prompt, or the reason for having none.
    """
    try:
        more = {"add_generation_prompt": not job["answered"], **job["marks"]}
        [prompt], _ = apply([messages], tools, chat_template=job["template"], **more)
        if len(prompt) > _LONGEST_PROMPT:
            raise ValueError(f"it writes more than {_LONGEST_PROMPT:,} characters")
    except MemoryError:
        return {"why": f"it needs more than {_MOST_MEMORY / 1e9:.1f} GB"}
    except Exception as error:  # noqa: BLE001  (a template can raise any)
        return {"why": shorten(first_line(error), 200)}
    return {"prompt": prompt}


def _limit(seconds: int) -> None:
    """Limit the memory of this process and its remaining time. A crash writes no core file."""
    try:
        import resource
    except ImportError:  # Windows
        return
    until = int(time.process_time()) + 1 + seconds
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, until), (resource.RLIMIT_DATA, _MOST_MEMORY)]
    for kind, most in limits:
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most + 1))  # the second is fatal without SIGXCPU
