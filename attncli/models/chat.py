"""Apply a checkpoint's chat template: text around a message, as its model was trained to read it.

A template is a program in a checkpoint. transformers runs it in jinja2's sandbox, which limits neither time nor memory.
So this runs in a process of its own, which has both limits.
"""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line, shorten
from attncli.base.untrusted import read_json, read_regular

SETTINGS_FILE, TEMPLATE_FILE = "tokenizer_config.json", "chat_template.jinja"
_LONGEST_FILE = 2**22  # bytes
_LONGEST_PROMPT = 2**20  # characters
_LONGEST_WORK = 5  # seconds of a processor
_LONGEST_WAIT = 30  # seconds, on a busy machine or without such limits
_MOST_MEMORY = 2**30  # bytes
_MARKS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from attncli.models.chat import render; render()"


def chat_prompt(directory: Path, message: str) -> str:
    """Return the text in which a checkpoint expects a user's message and begins its answer.

    Raises RequestError if the checkpoint has no chat template, or its template fails or exceeds the limits.
    """
    settings = _settings_of(directory)
    stated = {name: settings.get(name) for name in _MARKS}
    contents = {name: mark.get("content") if isinstance(mark, dict) else mark for name, mark in stated.items()}
    job = {
        "template": _template_of(directory, settings),
        "marks": {name: token for name, token in contents.items() if isinstance(token, str)},
        "messages": [{"role": "user", "content": message}],
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
        why = f"it takes more than {_LONGEST_WORK} seconds"
    elif done.returncode != 0:
        why = f"its process ended with exit code {done.returncode}"
    else:
        made = json.loads(done.stdout)
        if "prompt" in made:
            return str(made["prompt"])
        why = made["why"]
    raise RequestError(f"the chat template in {directory} fails: {why}")


def render() -> None:
    """Read a template and what it is applied to from stdin, and write the prompt, or why there is none, to stdout."""
    from transformers.utils.chat_template_utils import render_jinja_template

    job = json.load(sys.stdin)
    _limit(job["seconds"])
    made: dict[str, str] = {}
    try:
        [prompt], _ = render_jinja_template(
            [job["messages"]], chat_template=job["template"], add_generation_prompt=True, **job["marks"]
        )
        if len(prompt) > _LONGEST_PROMPT:
            raise ValueError(f"it writes more than {_LONGEST_PROMPT:,} characters")
        made["prompt"] = prompt
    except MemoryError:
        made["why"] = f"it needs more than {_MOST_MEMORY / 1e9:.1f} GB"
    except Exception as error:  # noqa: BLE001  (a template can raise any)
        made["why"] = shorten(first_line(error), 200)
    json.dump(made, sys.stdout)


def _limit(seconds: int) -> None:
    """Limit the memory of this process, and its time from now on. A crash leaves no core file behind."""
    try:
        import resource
    except ImportError:  # Windows
        return
    until = int(time.process_time()) + 1 + seconds
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, until), (resource.RLIMIT_DATA, _MOST_MEMORY)]
    for kind, most in limits:
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most + 1))  # the second is fatal without SIGXCPU


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
