"""The texts that a command is about: TEXT, --pair and --file, stdin, or the sample sentence."""

import os
import select
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.base.errors import RequestError
from attncli.cli import output
from attncli.cli.progress import PATIENCE

if TYPE_CHECKING:
    from attncli.record import Input

SAMPLE = "The trophy does not fit in the suitcase because it is too big."
STDIN = "-"
MOST_BYTES = 20_000_000  # of texts that are all kept: some five million tokens, which are hours of a model's work


def read_inputs(text: str | None, pair: str | None, file: str | None, stdin: bool = False) -> "list[Input]":
    """The texts meant; without any the sample sentence. `stdin`: before that, what is piped in.

    Raises RequestError when a file can't be read, is empty or not UTF-8, or both TEXT and --file are given.
    """
    from attncli.record import Input

    check_either(text, file)
    if text is not None:
        return [Input(text, pair)]
    if file is None and stdin and stdin_is_piped():
        file = STDIN
    if file is not None:
        return [Input(line, pair) for line in read_lines(file)]
    output.say(f'attncli: no text given, so this one: "{SAMPLE}"')
    return [Input(SAMPLE, pair)]


def check_either(text: str | None, file: object) -> None:
    """Raises RequestError where there are both."""
    if text is not None and file is not None:
        raise RequestError("both a text and --file are given: which one is meant?")


def read_lines(name: str) -> list[str]:
    """The lines of a file that hold something. "-" is stdin.

    Raises RequestError as `read_inputs` does, and for more than MOST_BYTES.
    """
    shown = "stdin" if name == STDIN else name
    try:
        content = read_stdin() if name == STDIN else read_file(Path(name))
        if len(content) > MOST_BYTES:
            raise RequestError(
                f"{shown} has more than {MOST_BYTES // 10**6} MB of text: give some of its lines (head -n 1000); "
                "attncli stats reads any number"
            )
        # utf-8-sig: editors on Windows put a byte order mark at the head of a file
        lines = [line.strip() for line in content.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown} is not UTF-8 at byte {error.start}: convert it first") from error
    except (OSError, ValueError) as error:
        from attncli.text.samples import where_to_find

        why = f"{getattr(error, 'strerror', None) or error}{where_to_find(name)}"
        raise RequestError(f"can't read {shown}: {why}") from error
    lines = [line for line in lines if line]
    if not lines:
        raise RequestError(f"{shown} has no text in it: put one text on a line")
    return lines


def read_file(path: Path) -> bytes:
    """A file, or a little more of it than may be."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def read_stdin() -> bytes:
    """The same of stdin. A user who waits for us, while we wait for stdin, is told so."""
    with suppress(OSError, ValueError):  # stdin is something that can't be waited for
        ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
        if not ready:
            output.say("attncli: reading texts from stdin, one a line, until it ends")
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def stdin_is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: not a terminal, and not nothing (/dev/null)."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by a test
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def check_one(count: int, otherwise: str) -> None:
    """Raises RequestError when there is not one text, and says what to do `otherwise`."""
    if count != 1:
        raise RequestError(f"there are {count} texts and one is needed: {otherwise}")


def names_of(written: str) -> list[str]:
    """ "minilm,bert-base" -> the two, each once. Raises RequestError where none is named."""
    names = list(dict.fromkeys(name.strip() for name in written.split(",") if name.strip()))
    if not names:
        raise RequestError("no model is named: give --model a name")
    return names
