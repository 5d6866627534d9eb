"""Libraries written in Rust: where one gives up ("panics"), that is an exception like others, and off the screen."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attncli.base.printable import first_line

STDERR = 2
LOCK = threading.RLock()  # two that turn stderr away at once would not find back to it


class Panic(Exception):  # noqa: N818  (it says what is the case)
    """A library written in Rust gave up. Its own exception is a BaseException, as an interruption is."""


@contextmanager
def quiet_panics() -> Iterator[None]:
    """Raises Panic where a library written in Rust panics in here; everything else comes through as it is.

    Rust prints what happened, with a backtrace, before Python hears of it, and nothing but the file descriptor can
    keep it off the screen: so nothing that is written to stderr in here appears. (Some 10 microseconds.)
    """
    with LOCK, stderr_turned_away():
        try:
            yield
        except BaseException as error:
            if type(error).__module__ == "pyo3_runtime":  # each library has a class of its own
                raise Panic(first_line(error)) from error
            raise


@contextmanager
def stderr_turned_away() -> Iterator[None]:
    """Where it is closed there is nothing to turn away."""
    try:
        kept = os.dup(STDERR)
    except OSError:
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDERR)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
