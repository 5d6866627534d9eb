"""What tests of the terminal's views share: canvases of all kinds, and a table's rows as text."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import shell
from hypothesis import strategies as st

from attncli.render.terminal.canvas import Canvas

PLAIN = Canvas(100, colour=False, unicode=True)


def canvases(narrowest=30, widest=200):
    """Of any width between these, with and without colour and blocks."""
    return st.builds(Canvas, width=st.integers(narrowest, widest), colour=st.booleans(), unicode=st.booleans())


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
    shown = b""
    with contextlib.suppress(OSError):  # nobody is left to write into it
        while read := os.read(main, 65536):
            shown += read
    os.close(main)
    return process.wait(), shown.decode("utf-8").replace("\r\n", "\n")
