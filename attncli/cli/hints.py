"""Hints: the command to type next, made from the last one, for a person at a terminal."""

import shlex
from collections.abc import Mapping
from typing import Any

from typer import Context

from attncli.base.printable import printable
from attncli.cli import output
from attncli.features.options import STDIN

# Options that choose the maps. A command that can't take one of them would be about other maps.
SAME = ("saved", "model", "engine", "pair", "file", "mask", "pad_to", "measure", "which", "target")
# The text, and the part of its maps to look at.
ALSO = ("text", "layer", "head", "query", "words", "no_special", "segments")
NOT_AGAIN = ("output_path", "quiet", "debug")


def is_set(context: Context, name: str) -> bool:
    """Return whether a parameter stands on the command line; an environment variable counts as a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def offer(context: Context, command: str, options: Mapping[str, Any]) -> None:
    """Print a command to paste, for the same text and model: "Next: attncli ...". After --json print nothing."""
    line = None if context.params.get("json") else next_line(context, command, options)
    if line is not None:
        output.hint(f"Next: {line}")


def next_line(context: Context, command: str, options: Mapping[str, Any]) -> str | None:
    """Return the line that runs `command` on the same text and model.

    None with --quiet, if the text was piped in or has control characters, or if the command would be about other maps.
    options: values by the names of parameters; None leaves out an option of the last command.
    """
    if output.QUIET:
        return None
    target: Any = context.find_root().command.get_command(context, command)  # type: ignore[attr-defined]
    kinds = {one.name: one.param_type_name for one in context.command.params}
    taken = {one.name: one for one in target.params}
    again = kinds.keys() - NOT_AGAIN if target is context.command else kinds.keys() & {*SAME, *ALSO}
    kept = {name for name in again - options.keys() if is_set(context, name)}
    fitting = {name for name in kept if name in taken and taken[name].param_type_name == kinds[name]}
    if (kept - fitting) & {*SAME}:
        return None
    values = {name: context.params[name] for name in fitting} | dict(options)
    line = command_line(command, target, values)
    return line if values.get("file") != STDIN and printable(line) == line else None


def command_line(command: str, target: Any, values: dict[str, Any]) -> str:
    """Return the command line with these values: options by their shortest names, then arguments."""
    options, arguments = [], []
    for one in target.params:
        value = values.get(one.name)
        if value is None or value is False:
            continue
        each = value if isinstance(value, list | tuple) else [value]
        if one.param_type_name == "argument":
            arguments += [str(item) for item in each]
        elif one.is_flag:
            options.append(min(one.opts, key=len))
        else:
            options += [word for item in each for word in (min(one.opts, key=len), str(item))]
    dashes = ["--"] if any(word.startswith("-") and word != STDIN for word in arguments) else []
    return shlex.join(["attncli", command, *options, *dashes, *arguments])
