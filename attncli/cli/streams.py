"""stdin, stdout and stderr in every state: open, closed, on a full disk, or a pipe whose reader has gone.

A message that can't be written to stderr is lost. Data that can't be written to stdout is an error, unless the reader
of the pipe has gone.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attncli.base.errors import RequestError

STAND_INS = (
    os.O_RDONLY,
    os.O_RDONLY,
    os.O_WRONLY,
)  # an empty stdin, a stdout that can't be written to, a stderr that drops everything


class _Stdout(io.FileIO):
    """The target of stdout. Raises RequestError if it can't write, and ends the program if the reader has gone."""

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # another program has made the pipe non-blocking
                select.select([], [self], [])
        except BrokenPipeError:
            raise SystemExit(0) from None
        except OSError as error:
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise RequestError(f"can't write to stdout: {why}") from error
        return written


class _Stderr(io.FileIO):
    """The target of stderr, which may fail."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def prepare() -> None:
    """Open all three before anything else, and reserve stderr for this program's own messages.

    A file gets the lowest free descriptor: if stdout is closed, a model's file would become stdout. Messages that
    compiled libraries write to descriptor 2 are dropped (see `allow_library_messages`).
    """
    for number, how in enumerate(STAND_INS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = text(_Stdout(1, "wb", closefd=False), sys.stdout)
    sys.stderr = text(_Stderr(os.dup(2), "wb"), sys.stderr)
    sys.__dict__.update(__stdout__=sys.stdout, __stderr__=sys.stderr)  # a terminal's width is read from these
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """Return a stream like `before` on another file. Characters that it can't encode are escaped."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None),
        errors="backslashreplace",
        line_buffering=getattr(before, "line_buffering", False),
        write_through=getattr(before, "write_through", False),
    )


def allow_library_messages() -> None:
    """Show from now on what compiled libraries write to stderr."""
    words = sys.stderr
    if words is sys.__stderr__ and words is not None:  # this program's own stream, not that of a program that embeds it
        os.dup2(words.fileno(), 2)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect the process's stdout to stderr, including output of compiled code."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(sys.stderr.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
