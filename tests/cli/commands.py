"""The commands of the program, as Typer has them."""

from functools import cache
from typing import Any

import typer

from attncli.cli.app import app

# They don't end by themselves, or run another program, and have tests of their own.
LIVE = {"capture", "explore", "serve"}


@cache
def commands() -> dict[str, Any]:
    """Return every command by its name."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    return {name: root.get_command(context, name) for name in root.list_commands(context)}


def is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))
