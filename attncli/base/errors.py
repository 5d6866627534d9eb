"""Errors that are not the program's fault, notices to the user, install hints, and panics of Rust libraries."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attncli.base.printable import first_line, printable


class RequestError(Exception):
    """A request that can't be met: the message is one line that says what, where, and what to do.

    The command line prints it and ends with exit code 2.
    """


class Notice(UserWarning):
    """Something the user should know although the request was met (`warnings.warn(text, Notice)`).

    The command line prints it on stderr.
    """


def install_hint(extra: str) -> str:
    """Say how to install an extra, and name the clone where the package runs from one."""
    clone = find_clone()
    where = "a clone of attncli" if clone is None else f"the clone {printable(str(clone))}"
    return f'pip install ".[{extra}]" in {where}'


def find_clone() -> Path | None:
    """Find the clone that this package lies in: of an editable install or a checkout. Return None for another one."""
    folder = Path(__file__).resolve().parents[2]
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return folder if '\nname = "attncli"\n' in text else None


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
