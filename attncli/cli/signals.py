"""TERM and HUP end the program at once, and what it was writing is removed; Ctrl-C is an exception as ever.

But for one that comes while something is imported, which ends it too.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from attncli.base import files as making

ENDING = ("SIGTERM", "SIGHUP")
SHOW_CURSOR = b"\x1b[?25h"  # a bar of progress hides it
SOON = 0.05  # seconds
IMPORTING = "<frozen importlib._bootstrap>"  # the file of whatever imports, as Python names it


def prepare() -> None:
    """Listen to them, but for those that whoever started the program has it ignore (`nohup`)."""
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = interrupt_again


def end(number: int, _: object) -> None:
    """Ends with 128 and the signal's number.

    Not by an exception, which libraries in other languages turn into one of theirs, or into an abort.
    """
    making.remove_all()
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(sys.stderr.fileno(), SHOW_CURSOR)
    os._exit(128 + number)


def interrupt(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, which an import in C++, such as torch's, can turn into an abort."""
    if imports(frame):
        end(number, frame)
    signal.default_int_handler(number, frame)


def imports(frame: FrameType | None) -> bool:
    """Return whether the code was called by an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Python drops an exception, and would show it, in a callback of its own, such as there are at every import.

    A Ctrl-C that came just then is sent again.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        from threading import Timer

        Timer(SOON, os.kill, (os.getpid(), signal.SIGINT)).start()
