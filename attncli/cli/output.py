"""Write to the terminal: data on stdout, messages on stderr, and no control characters."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attncli.base.printable import printable
from attncli.base.progress import Advance, Lines, Progress, silent
from attncli.cli import streams

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from attncli.report.canvas import Canvas

LONGEST_ERROR = 400  # characters of an error line
INTERRUPTED = 130  # the exit code
CUT = " ... "
DEBUG = False
QUIET = False
PAGE_WIDTH = 100  # columns for pictures if stdout is not a terminal
ENDLESS = 10_000  # columns for tables then, so that they are never truncated


def set_debug(wanted: bool) -> None:
    """Turn on --debug for the rest of the process."""
    global DEBUG
    DEBUG = DEBUG or wanted
    if wanted:
        streams.allow_library_messages()


def set_quiet(wanted: bool) -> None:
    """Turn on --quiet for the rest of the process."""
    global QUIET
    QUIET = QUIET or wanted
    if QUIET:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # the library reads it on import


def say(text: str) -> None:
    """Print one line on stderr, unless --quiet was given."""
    if not QUIET:
        print(folded(printable(text)), file=sys.stderr, flush=True)  # noqa: T201


def error(text: str) -> None:
    """Print on stderr why a request can't be met.

    In a long line the middle is omitted, since the end says what to do.
    """
    line = printable(text).encode(sys.stderr.encoding or "ascii", "backslashreplace").decode(sys.stderr.encoding)
    if len(line) > LONGEST_ERROR:
        half = (LONGEST_ERROR - len(CUT)) // 2
        line = line[:half] + CUT + line[-half:]
    print(folded(line), file=sys.stderr, flush=True)  # noqa: T201


def folded(line: str) -> str:
    """Wrap a line between words if stderr is a terminal."""
    return fold_line(line, shutil.get_terminal_size().columns) if sys.stderr.isatty() else line


def fold_line(line: str, columns: int) -> str:
    """Wrap a line between words if it is wider than the terminal."""
    if len(line) <= columns:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, columns, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False)


PATIENCE = 2.0  # seconds until the user sees a bar


def display() -> Progress:
    """Return the progress display for stderr: a bar on a terminal, otherwise lines."""
    if QUIET:
        return silent
    return show_bar if sys.stderr.isatty() else Lines(lambda line: say(f"attncli: {line}"))


@contextmanager
def show_bar(total: int | None, what: str) -> Iterator[Advance]:
    """Show a bar once the work takes PATIENCE seconds; without a known total, only the words and the time."""
    from tqdm import tqdm

    try:
        with tqdm(total=total, desc=what, delay=PATIENCE, miniters=0, leave=False, dynamic_ncols=True) as bar:

            def advance(steps: int = 1, of: int | None = None, text: str | None = None) -> None:
                bar.total = of or bar.total
                bar.bar_format = None if bar.total else "{desc} [{elapsed}]"
                if text is not None:
                    bar.set_description_str(text, refresh=False)
                bar.update(steps)

            yield advance
    finally:  # tqdm leaves its last carriage return in the buffer; stdout would be written before it
        sys.stderr.flush()


HINT_LINES = 3  # at most


def hint(text: str) -> None:
    """Show a command if it fits into HINT_LINES lines of the terminal, which wraps it so that it stays copyable.

    Show nothing with --quiet, or if stdout or stderr is not a terminal.
    """
    if QUIET or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    target = Console(stderr=True)
    if cell_len(text) <= HINT_LINES * target.width:
        sys.stdout.flush()
        style = "dim" if target.color_system is not None and not target.no_color else ""
        target.print(Text(text, style), soft_wrap=True)


def data(text: str) -> None:
    """Print one line on stdout."""
    print(printable(text))  # noqa: T201


def file(path: object, json: bool) -> None:
    """Print the name of a written file: on stdout, unless a JSON document is printed there."""
    say(f"attncli: saved {path}") if json else data(str(path))


def text(pieces: Iterable[str]) -> None:
    """Write a text to stdout, piece by piece."""
    sys.stdout.writelines(pieces)


def show(*renderables: "RenderableType") -> None:
    """Print tables and maps on stdout; in a pipe, without trailing spaces."""
    target = console()
    if target.is_terminal:
        target.print(*renderables, sep="\n")
        return
    with target.capture() as captured:
        target.print(*renderables, sep="\n", soft_wrap=True)
    text(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def console() -> "Console":
    """Return rich's console for stdout: colour only on a terminal, and no wrapping in a pipe."""
    from rich.console import Console

    target = Console(highlight=False, markup=False, emoji=False)
    if not target.is_terminal:
        target = Console(highlight=False, markup=False, emoji=False, width=ENDLESS, color_system=None)
    return target


def canvas() -> "Canvas":
    """Return the terminal as a canvas, or PAGE_WIDTH columns in a pipe."""
    from attncli.report.canvas import Canvas, is_light_terminal

    target = console()
    terminal = shutil.get_terminal_size() if target.is_terminal else None
    try:
        "▀░▒▓█▁·…↺⇤■".encode(sys.stdout.encoding or "ascii")
        unicode = True
    except (UnicodeEncodeError, LookupError):
        unicode = False
    return Canvas(
        width=PAGE_WIDTH if terminal is None else terminal.columns,
        colour=target.color_system is not None and not target.no_color,
        unicode=unicode,
        height=None if terminal is None else terminal.lines,
        light=is_light_terminal(),
    )
