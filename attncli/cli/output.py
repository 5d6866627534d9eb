"""What reaches the terminal: data on stdout, words on stderr, and nothing that could command the terminal."""

import json
import sys
from typing import TYPE_CHECKING, Any

from attncli.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

DEBUG = False
PIPE_WIDTH = 100  # columns for pictures when stdout is no terminal; tables are as wide as they need to be


def set_debug(wanted: bool) -> None:
    """What the option --debug does; for the rest of the process."""
    global DEBUG
    DEBUG = DEBUG or wanted


def prepare_streams() -> None:
    """A character that stdout can't encode is escaped, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def words(text: str) -> None:
    """One line for the user, on stderr."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def data(text: str) -> None:
    """One line of output, on stdout."""
    print(printable(text))  # noqa: T201


def json_document(document: dict[str, Any]) -> None:
    """The one JSON document that --json prints. In ASCII, so that it survives any terminal and encoding."""
    json.dump(document, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


def show(*renderables: "RenderableType") -> None:
    """Pictures and tables made by `attncli.render.terminal`, on stdout."""
    target = console()
    for renderable in renderables:
        target.print(renderable, soft_wrap=not target.is_terminal, crop=target.is_terminal)


def console() -> "Console":
    """stdout for pictures and tables: colour on a terminal only, and no folding in a pipe."""
    from rich.console import Console

    target = Console(highlight=False, markup=False, emoji=False)
    if not target.is_terminal:
        target = Console(highlight=False, markup=False, emoji=False, width=10_000, color_system=None)
    return target


def width() -> int:
    """Columns for pictures that fit themselves to the terminal."""
    from rich.console import Console

    target = Console()
    return target.width if target.is_terminal or "COLUMNS" in target._environ else PIPE_WIDTH


def unicode_output() -> bool:
    """Whether stdout can encode the blocks that maps are drawn with."""
    try:
        "▀░▒▓█·…".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def coloured() -> bool:
    """Whether stdout is a terminal that shows colour."""
    return console().color_system is not None
