"""Lines of a shell that run the program: in this process where no shell is needed, which saves a second a line."""

import contextlib
import io
import math
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HIDDEN = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "ATTNCLI_MODEL", "ATTNCLI_QUIET", "PYTHONIOENCODING")
SHELL = set("|&;<>()$`*?[]")


class Printed(NamedTuple):
    """text: what stood on stdout and stderr, in its order."""

    code: int
    text: str


def run_line(line: str, folder: Path) -> Printed:
    """Run a line in a folder, with nothing on stdin."""
    words = shlex.split(line)
    if words[0] == "attncli" and not SHELL & set(without_quoted(line)):
        return in_process(words[1:], folder)
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Printed(done.returncode, done.stdout)


def without_quoted(line: str) -> str:
    """Return a line without its quoted parts."""
    return "".join(line.replace("'", '"').split('"')[::2])


def in_process(arguments: list[str], folder: Path) -> Printed:
    """Run the program in this process, which is faster than a new one."""
    from attncli.base import progress
    from attncli.cli import output
    from attncli.cli.app import main

    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        contextlib.chdir(folder) if hasattr(contextlib, "chdir") else inside(folder),
        surroundings(),
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        warnings.catch_warnings(),
    ):
        before = output.DEBUG, output.QUIET
        output.DEBUG = output.QUIET = False
        progress.SECONDS = math.inf  # a slow machine prints no more than a fast one
        stdin, sys.stdin = sys.stdin, io.StringIO()
        try:
            main(arguments)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            output.DEBUG, output.QUIET = before
            sys.stdin = stdin
    return Printed(code, stream.buffer.getvalue().decode("utf-8"))


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """contextlib.chdir, which Python has from 3.11 on."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """Remove the variables that change what is printed."""
    taken = {name: os.environ.pop(name) for name in HIDDEN if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process, with this interpreter's programs first in PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return {**kept, "PATH": path, "HF_HUB_OFFLINE": "1", "HF_HOME": "/nowhere", **more}
