"""Helpers for tests of terminal views: canvases of all kinds, a table's rows as text, terminals of any size."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
import shell
from hypothesis import strategies as st
from rich.console import Console

from attncli.report.canvas import Canvas

PLAIN = Canvas(100, colour=False, unicode=True)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def canvases(narrowest=30, widest=200, heights=None):
    """Draw canvases of these widths, with and without colour and blocks, of a given height or without an end."""
    return st.builds(
        Canvas,
        width=st.integers(narrowest, widest),
        colour=st.booleans(),
        unicode=st.booleans(),
        height=st.none() if heights is None else heights,
    )


def rows(table):
    """The table's rows, a text a column."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return list(zip(*columns, strict=True))


def at_a_terminal(arguments, folder, columns=80, **environment):
    """The program at a pseudo-terminal of so many columns, with all three streams: exit code, and what it shows."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "attncli", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, cwd=folder, env=shell.environment(TERM="xterm", **environment)
    )
    os.close(other)
    printed = b""
    with contextlib.suppress(OSError):  # nobody is left to write into it
        while read := os.read(main, 65536):
            printed += read
    os.close(main)
    return process.wait(), printed.decode("utf-8").replace("\r\n", "\n")


def printed_lines(*renderables, width: int, terminal: bool = True) -> list[str]:
    """The lines of what is printed on a terminal so wide, or in a pipe."""
    console = Console(
        width=width, force_terminal=terminal, color_system=None, markup=False, emoji=False, legacy_windows=False
    )
    with console.capture() as captured:
        console.print(*renderables, sep="\n", soft_wrap=not terminal)
    return [line.rstrip() for line in captured.get().splitlines()]


@contextmanager
def pseudo_terminal(columns: int, lines: int = 24) -> Iterator[list[str]]:
    """stdout is a terminal of this size. Yields what becomes the lines on it, without colours, when it is over."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    pieces: list[bytes] = []
    found: list[str] = []

    def read() -> None:
        try:
            while piece := os.read(master, 65536):
                pieces.append(piece)
        except OSError:  # that is how a terminal ends
            pass

    reader = Thread(target=read)
    reader.start()
    with pytest.MonkeyPatch.context() as patch, open(slave, "w", encoding="utf-8") as stream:  # noqa: PTH123
        patch.setattr(sys, "stdout", stream)
        for name, value in (("COLUMNS", columns), ("LINES", lines), ("TERM", "xterm-256color")):
            patch.setenv(name, str(value))
        yield found
    reader.join()
    os.close(master)
    found += ESCAPES.sub("", b"".join(pieces).decode()).replace("\r\n", "\n").splitlines()
