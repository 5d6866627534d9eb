"""The Typer app, and the one place where errors become a line on stderr and an exit code."""

import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from attncli import __version__
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable, quoted, shorten
from attncli.cli import given, output
from attncli.cli.ablate import ablate
from attncli.cli.align import align
from attncli.cli.bench import bench
from attncli.cli.check import check
from attncli.cli.compare import compare
from attncli.cli.cut import cut
from attncli.cli.diff import diff
from attncli.cli.explain import explain
from attncli.cli.explore import explore
from attncli.cli.find import find
from attncli.cli.flow import flow
from attncli.cli.heatmap import heatmap
from attncli.cli.help import HELP_NAMES, Command, Commands
from attncli.cli.mask import mask
from attncli.cli.mechanisms import mechanisms
from attncli.cli.models import models
from attncli.cli.patch import patch
from attncli.cli.probe import probe
from attncli.cli.run import run
from attncli.cli.samples import samples
from attncli.cli.serve import serve
from attncli.cli.similar import similar
from attncli.cli.stats import stats
from attncli.cli.train_align import train_align
from attncli.cli.trust import trust
from attncli.cli.view import view

REFUSED = 2

GROUPS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Look": {"run": run, "view": view, "heatmap": heatmap, "find": find, "explore": explore, "serve": serve},
    "Understand": {
        "explain": explain,
        "mask": mask,
        "mechanisms": mechanisms,
        "align": align,
        "flow": flow,
        "check": check,
    },
    "Does it matter": {"ablate": ablate, "similar": similar, "cut": cut, "patch": patch, "trust": trust},
    "Corpora and comparisons": {"stats": stats, "probe": probe, "diff": diff},
    "The program itself": {
        "compare": compare,
        "models": models,
        "samples": samples,
        "bench": bench,
        "train-align": train_align,
    },
}


class Program(Commands):
    """A program whose `--help` lists its commands by GROUPS. (Rich's panels would take longer than all the rest.)"""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(len(name) for commands in GROUPS.values() for name in commands)
        for title, commands in GROUPS.items():
            rows = []
            for name in commands:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name.ljust(width), command.get_short_help_str()))  # folded, never cut
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    name="attncli",
    cls=Program,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_NAMES},
)
for commands in GROUPS.values():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        else:
            app.command(name, cls=Command)(command)


def show_version(wanted: bool) -> None:
    if wanted:
        output.data(f"attncli {__version__}")
        raise typer.Exit()


@app.callback()
def attncli(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """See what every attention head of a BERT does to your text.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli heatmap --head 3 -o out.png "The cat sat on the mat."
      attncli compare --model minilm
    """


def main(arguments: list[str] | None = None) -> None:
    """The program. Exit codes: 0 done, 1 a check said no, 2 the request can't be met, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    hear_libraries()
    try:
        check_folder()
        code = app(arguments or ["--help"], prog_name="attncli", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = output.INTERRUPTED
    except Exception as error:  # noqa: BLE001
        code = output.INTERRUPTED if was_interrupted(error) else refuse(error)
    sys.exit(code)


def was_interrupted(error: BaseException | None) -> bool:
    """Whether it is of something that could not be closed on the way out after a Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def hear_libraries() -> None:
    """Their warnings come to `show_warning`, whatever PYTHONWARNINGS makes of them; what they log goes nowhere."""
    warnings.showwarning = show_warning
    warnings.simplefilter("default")
    warnings.simplefilter("always", Notice)
    logging.basicConfig(handlers=[logging.NullHandler()])


def check_folder() -> None:
    """Raises RequestError in a folder that was removed, where libraries end in ways of their own."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise RequestError(f"the working directory is gone ({error.strerror}): cd to another one") from error


def refuse(error: Exception) -> int:
    """Say in one line why the request can't be met; with --debug, show where."""
    if output.DEBUG:
        traceback.print_exception(error)
    else:
        output.error(f"attncli: error: {line_of(error)}")
    return REFUSED


def line_of(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory: ask for fewer layers or heads (-l, -H), or a shorter text"
    if isinstance(error, (RequestError, OSError)):
        return str(error)
    return usage_line(error) if hasattr(error, "format_message") else mistake(error)


def mistake(error: Exception) -> str:
    """What nobody foresaw."""
    return f"{type(error).__name__}: {error} (a mistake in attncli: --debug shows where)"


CHOICE = re.compile(
    r"Invalid value for (?P<option>.+): Value error, '(?P<given>.*)' is not one of (?P<names>.*)", re.DOTALL
)
LONG = re.compile(r"[^\s'()]{41,}")  # what was typed, where that is not a word of Typer's


def usage_line(error: Any) -> str:
    """What Typer says of a bad option, of a bad name in our own words, with the command whose --help to read."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "attncli"
    message = error.format_message().rstrip(".")
    choice = CHOICE.fullmatch(message)
    if choice is not None:
        option = given.written(error.param).lstrip("-")
        message = f"no {option} {quoted(choice['given'])}: it is one of {choice['names'].replace(chr(39), '')}"
    message = LONG.sub(lambda word: shorten(printable(word[0])), message)
    return f"{message} (see {command} --help)"


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Notices are for the user; other libraries' warnings are not."""
    if issubclass(category, Notice):
        output.say(f"attncli: {message}")
    elif output.DEBUG:
        output.say(f"{category.__name__}: {message}")
