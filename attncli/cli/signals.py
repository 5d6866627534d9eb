"""TERM and HUP end the program at once, and what it was writing is removed; Ctrl-C is an exception as ever."""

import os
import signal
import sys
from contextlib import suppress
from typing import Any

from attncli.base import making

ENDING = ("SIGTERM", "SIGHUP")
SHOW_CURSOR = b"\x1b[?25h"  # a bar of progress hides it
SOON = 0.05  # seconds


def prepare() -> None:
    """Listen to them, but for those that whoever started the program has it ignore (`nohup`)."""
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    sys.unraisablehook = interrupt_again


def end(number: int, _: Any) -> None:
    """Ends with 128 and the signal's number.

    Not by an exception, which libraries in other languages turn into one of theirs, or into an abort.
    """
    making.remove_all()
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(128 + number)


def interrupt_again(lost: Any) -> None:
    """Python drops an exception, and would show it, in a callback of its own, such as there are at every import.

    A Ctrl-C that came just then is sent again.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        from threading import Timer

        Timer(SOON, os.kill, (os.getpid(), signal.SIGINT)).start()
