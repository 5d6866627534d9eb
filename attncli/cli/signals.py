"""TERM and HUP end the program at once and remove unfinished files.

Ctrl-C raises KeyboardInterrupt, as usual in Python, but ends the program at once during an import.
"""

import os
import signal
import sys
from types import FrameType

from attncli.base import files as making

ENDING = ("SIGTERM", "SIGHUP")
IMPORTING = "<frozen importlib._bootstrap>"  # Python's name for the file of code that imports


def prepare() -> None:
    """Handle the signals, except those that the program was started to ignore (`nohup`)."""
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = lambda lost: None  # such as zipfile's error about an archive that Ctrl-C left open


def end(number: int, _: object) -> None:
    """End with 128 plus the number of the signal.

    An exception would not work: libraries in other languages convert it to one of theirs, or abort.
    """
    making.remove_all()
    os._exit(128 + number)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import end at once, because C++ code such as torch's may abort on it."""
    caller = frame
    while caller is not None and caller.f_code.co_filename != IMPORTING:
        caller = caller.f_back
    if caller is not None:
        end(number, frame)
    signal.default_int_handler(number, frame)
