"""TERM and HUP end the program as Ctrl-C does: by an exception, on whose way files in the making are removed."""

import os
import signal
import sys
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
SOON = 0.05  # seconds


def prepare() -> None:
    """Listen to them, but for those that whoever started the program has it ignore (`nohup`)."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    sys.unraisablehook = send_again


def end(number: int, _: Any) -> None:
    """Ends with 128 and the signal's number. Another one is no news: `timeout` sends two."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def send_again(lost: Any) -> None:
    """Python drops an exception, and would show it, in a callback of its own, such as there are at every import.

    A signal that came just then is sent again.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(lost.exc_value, SystemExit) and isinstance(lost.exc_value.code, int):
        number = signal.Signals(lost.exc_value.code - 128)
        signal.signal(number, end)
    else:
        return
    from threading import Timer

    Timer(SOON, os.kill, (os.getpid(), number)).start()
