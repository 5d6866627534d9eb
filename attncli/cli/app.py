"""The Typer app. All errors become one line on stderr and an exit code here."""

import logging
import os
import re
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer
import typer.main

from attncli import __version__, features
from attncli.base.errors import Notice, RequestError
from attncli.base.printable import printable, quoted, shorten
from attncli.cli import output
from attncli.cli.command import command_of
from attncli.cli.help import HELP_NAMES, Command, Commands, long_name

REFUSED = 2
SPIN = "20000"  # iterations that a thread of OpenMP spins before it sleeps; the default is 300,000
SETTINGS = {"help_option_names": HELP_NAMES}


class Program(Commands):
    """A program that imports each command on use."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in features.NAMES:
            alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
            feature = features.find_measure(cmd_name)
            settings = {**SETTINGS, "allow_interspersed_args": not feature.passes_on}
            alone.command(cmd_name, cls=Command, context_settings=settings)(command_of(feature))
            self.commands[cmd_name] = typer.main.get_command(alone)
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(features.NAMES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in groups, without rich's panels, which are slow."""
        width = max(map(len, features.NAMES))
        for title, commands in features.COMMANDS.items():
            with formatter.section(title):  # a summary is wrapped, never truncated
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])

    def get_help(self, ctx: Any) -> str:
        """Return the page with the most used commands in bold; Typer omits the bold unless stdout is a terminal."""
        daily, *_ = features.COMMANDS.values()
        names = re.compile(rf"^  ({'|'.join(daily)})(?=  )", flags=re.MULTILINE)
        return names.sub(lambda found: f"  {typer.style(found[1], bold=True)}", super().get_help(ctx))


app = typer.Typer(
    name="attncli", cls=Program, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=SETTINGS
)


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
    """See what every attention head does to your text.

    \b
    Examples:
      attncli run "The trophy does not fit in the suitcase because it is too big."
      attncli heatmap --head 3 -o out.png "The cat sat on the mat."
      attncli compare --model minilm
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program. Exit codes: 0 success, 1 a check failed, 2 the request can't be met, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # Make torch's threads sleep if other programs need the cores; torch reads this on import. On two cores with two
    # other busy programs, a text of 60 tokens takes 70 ms instead of 450 to 950 ms. On idle cores nothing changes (AMD
    # EPYC, minilm).
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
    # Libraries' warnings go to `show_warning`, regardless of PYTHONWARNINGS. Their logs are dropped.
    warnings.showwarning = show_warning
    warnings.simplefilter("default")
    warnings.simplefilter("always", Notice)
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        check_folder()
        code = app(arguments or ["--help"], prog_name="attncli", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = output.INTERRUPTED
    except Exception as error:  # noqa: BLE001
        cause: BaseException | None = error  # a Ctrl-C may have caused it, such as a file that could not be closed
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__context__
        code = refuse(error) if cause is None else output.INTERRUPTED
    sys.exit(code)


def check_folder() -> None:
    """Raises RequestError if the working directory was removed, since libraries then fail with unclear errors."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise RequestError(f"the working directory was removed ({error.strerror}): cd to another one") from error


def refuse(error: Exception) -> int:
    """Print in one line why the request can't be met; with --debug, also a traceback. Return the exit code."""
    if output.DEBUG:
        traceback.print_exception(error)
        return REFUSED
    if isinstance(error, MemoryError):
        line = "not enough memory: ask for fewer layers or heads (-l, -H), or a shorter text"
    elif isinstance(error, (RequestError, OSError)):
        line = str(error)
    elif hasattr(error, "format_message"):
        line = usage_line(error)
    else:
        line = f"{type(error).__name__}: {error} (a bug in attncli: --debug shows where)"
    output.error(f"attncli: error: {line}")
    return REFUSED


CHOICE = re.compile(
    r"Invalid value for (?P<option>.+): Value error, '(?P<given>.*)' is not one of (?P<names>.*)", re.DOTALL
)
LONG = re.compile(r"[^\s'()]{41,}")  # user input in Typer's message


def usage_line(error: Any) -> str:
    """Return Typer's message about a bad option, or our own about a bad name, with a pointer to the command's
    --help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "attncli"
    message = error.format_message().rstrip(".")
    choice = CHOICE.fullmatch(message)
    if choice is not None:
        option = long_name(error.param).lstrip("-")
        message = f"no {option} {quoted(choice['given'])}: use one of {choice['names'].replace(chr(39), '')}"
    message = LONG.sub(lambda word: shorten(printable(word[0])), message)
    return f"{message} (see {command} --help)"


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show notices to the user; show other warnings only with --debug."""
    if issubclass(category, Notice):
        for line in f"attncli: {message}".split("\n"):
            output.say(line)
    elif output.DEBUG:
        output.say(f"{category.__name__}: {message}")
