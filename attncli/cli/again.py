"""What was typed, as something to type next: with other options, or for another command."""

import shlex
from collections.abc import Mapping
from typing import Any

from typer import Context

from attncli.base.printable import printable
from attncli.cli.given import given, written

# What says which maps are meant, whichever command draws them.
MEANT = ("model", "pair", "file", "saved", "mask", "pad_to", "measure", "words", "engine", "which", "target", "dtype")


def again(context: Context, command: str, options: Mapping[str, object] = {}, texts: bool = True) -> str:
    """A command on the same text and model as this one's, with `options` by how they are written ("-l": 3).

    texts: with the text that was given. What could not be pasted (control characters in it) is escaped.
    """
    parts = ["attncli", *command.split()]
    for name, value in options.items():
        parts += [name, str(value)]
    for parameter in context.command.params:
        if parameter.name in MEANT and given(context, parameter.name):
            parts += written_out(parameter, context.params[parameter.name])
    text = context.params.get("text")
    if texts and text is not None:
        parts += ["--", text] if text.startswith("-") else [text]
    return printable(shlex.join(parts))


def written_out(parameter: Any, value: Any) -> list[str]:
    """An option as it is typed: "-m" "minilm"; a flag by itself."""
    name = min(parameter.opts, key=len)
    return [written(parameter)] if value is True else [name, str(value)]
