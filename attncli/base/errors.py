"""User errors, notices, installation hints, and panics of Rust libraries."""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attncli.base.printable import first_line, printable


class RequestError(Exception):
    """A request that can't be met. The message is one line: what is wrong, where, and what to do.

    The command line prints it and exits with code 2.
    """


class Notice(UserWarning):
    """Information that the user needs although the request succeeded (`warnings.warn(text, Notice)`).

    The command line prints it on stderr.
    """


@contextmanager
def no_notices() -> Iterator[None]:
    """Suppress Notices inside the block: its texts are not the user's, or the user has already seen their Notices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        yield


def install_hint(extra: str) -> str:
    """Return the command that installs an extra. It names the clone if the package runs from one."""
    folder, project = Path(__file__).resolve().parents[2], ""
    with suppress(OSError, ValueError):  # neither an editable install nor a checkout
        project = (folder / "pyproject.toml").read_text(encoding="utf-8")
    where = f"the clone {printable(str(folder))}" if '\nname = "attncli"\n' in project else "a clone of attncli"
    return f'pip install ".[{extra}]" in {where}'


STDERR = 2
LOCK = threading.RLock()  # two threads that redirect stderr at once could not restore it


class Panic(Exception):  # noqa: N818  (Rust's own word)
    """A panic of a Rust library. Its own exception is a BaseException, like KeyboardInterrupt."""


@contextmanager
def quiet_panics() -> Iterator[None]:
    """Convert panics of Rust libraries inside the block to Panic. Other exceptions pass unchanged.

    Rust prints a backtrace before Python receives the exception. Only redirecting the file descriptor hides it. So
    nothing written to stderr inside the block appears. (Costs about 10 microseconds.)
    """
    with LOCK, redirect_stderr():
        try:
            yield
        except BaseException as error:
            if type(error).__module__ == "pyo3_runtime":  # each library has its own class
                raise Panic(first_line(error)) from error
            raise


@contextmanager
def redirect_stderr() -> Iterator[None]:
    """Send stderr to the null device inside the block. Does nothing if stderr is closed."""
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
