"""stdin, stdout and stderr, as the program finds them: open or closed, on a full disk, or read by nobody any more.

What can't be said on stderr is lost and changes nothing. What can't be written on stdout is an error, save where its
reader has seen enough.
"""

import errno
import io
import os
import select
import sys
from typing import Any

from attncli.base.errors import RequestError

STAND_INS = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)  # an empty stdin, a stdout that can't be written to, lost words


class Data(io.FileIO):
    """The target of stdout. Raises RequestError where it can't write, and ends the program when nobody reads on."""

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # another program has told the pipe not to wait
                select.select([], [self], [])
        except BrokenPipeError:
            raise SystemExit(0) from None
        except OSError as error:
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise RequestError(f"can't write to stdout: {why}") from error
        return written


class Words(io.FileIO):
    """The target of stderr, which may fail."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def prepare() -> None:
    """Before anything else is opened: all three are there, and stderr is for this program's words only.

    A file takes the lowest number that is free: with stdout closed, a model's file would be stdout. What libraries
    without Python write to stderr, by its number, goes nowhere (`let_libraries_speak`).
    """
    for number, how in enumerate(STAND_INS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = text(Data(1, "wb", closefd=False), sys.stdout)
    sys.stderr = text(Words(os.dup(2), "wb"), sys.stderr)
    sys.__dict__.update(__stdout__=sys.stdout, __stderr__=sys.stderr)  # where a terminal's width is asked for
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """The stream that was there `before`, or None, on another file. A character that it can't encode is escaped."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None),
        errors="backslashreplace",
        line_buffering=getattr(before, "line_buffering", False),
        write_through=getattr(before, "write_through", False),
    )


def let_libraries_speak() -> None:
    """Show from here on what libraries write to stderr."""
    words = sys.stderr
    if words is sys.__stderr__ and words is not None:  # this program's own, not of one that runs it within
        os.dup2(words.fileno(), 2)
