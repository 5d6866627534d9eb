"""Tell options that the user gave from defaults: an option without an effect is refused, never ignored."""

from typing import Any

from typer import Context

from attncli.base.errors import RequestError


def given(context: Context, name: str) -> bool:
    """Return whether a parameter stands on the command line; an environment variable counts as a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse(context: Context, why: str, *names: str) -> None:
    """Raises RequestError for the first of these parameters that was given; `why` says what takes its effect."""
    for name in names:
        if given(context, name):
            raise RequestError(f"{shown(context, name)} has no effect {why}: leave it out")


def shown(context: Context, name: str) -> str:
    """A parameter as the user writes it: "--mask", "TEXT"."""
    [parameter] = [one for one in context.command.params if one.name == name]
    return written(parameter)


def written(parameter: Any) -> str:
    """An option by its long name, an argument by its metavar."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=lambda option: option.startswith("--")))
