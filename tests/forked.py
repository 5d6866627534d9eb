"""Processes of the program without a start of Python, which takes two seconds with torch: forked from one that has
imported everything.

They are as real as others where what counts is a stream, a signal or what is left behind; a test of the start itself
starts one. A test that has many of them leaves a few that are started, too.
"""

import importlib
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import shell

IMPORTED = [
    "attncli.__main__",
    "attncli.cli.app",
    "attncli.cli.output",
    "attncli.models.loading",
    "attncli.features.compare.ways",
]
STARTING = multiprocessing.get_context("spawn")
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(IMPORTED)
Place = tuple[str, str, Any]  # a module, a name in it, and what it has there


class Process:
    """A process of the program; stdout and stderr are read here where none is given. Close those of one's own."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        streams: Mapping[int, int | None] | None = None,
        places: Sequence[Place] = (),
        how: BaseContext = FORKING,
        **variables: str,
    ) -> None:
        """streams: what 0, 1 and 2 are: files by their numbers, None for one that is closed; stdin else is empty.

        how: STARTING for what is not worth the process that others are forked from.
        """
        ends = {number: os.pipe() for number in (1, 2) if number not in (streams or {})}
        nothing = os.open(os.devnull, os.O_RDONLY)
        given = {0: nothing, **{number: writing for number, (_, writing) in ends.items()}, **(streams or {})}
        passed = {number: None if one is None else Connection(os.dup(one)) for number, one in given.items()}
        surroundings = shell.environment(**variables)
        self.child: BaseProcess = how.Process(
            target=begin, args=(list(map(str, arguments)), str(folder), surroundings, passed, list(places))
        )
        self.child.start()
        for one in (nothing, *(writing for _, writing in ends.values())):
            os.close(one)
        for connection in passed.values():
            if connection is not None:
                connection.close()
        read = {number: os.fdopen(reading, encoding="utf-8") for number, (reading, _) in ends.items()}
        self.stdout, self.stderr = read.get(1), read.get(2)

    def poll(self) -> int | None:
        return self.child.exitcode

    def wait(self, timeout: float = 300) -> int:
        """The exit code; that of one that a signal ended is negative."""
        self.child.join(timeout)
        assert self.child.exitcode is not None, f"it takes longer than {timeout} s"
        return self.child.exitcode

    def kill(self) -> None:
        self.child.kill()

    def ended(self) -> tuple[int, str, str]:
        """The exit code, what it printed, and what it said, which is little."""
        with self.stdout, self.stderr:
            printed = self.stdout.read()
            said = self.stderr.read()
        return self.wait(), printed, said


def begin(
    arguments: list[str],
    folder: str,
    variables: dict[str, str],
    streams: dict[int, Connection | None],
    places: list[Place],
) -> None:
    """The program from its beginning to its end, in the child: its streams are as Python has them at its start."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for module, name, value in places:
        setattr(importlib.import_module(module), name, value)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        connection = streams[number]
        if connection is None:
            os.close(number)
            setattr(sys, name, None)
        else:
            os.dup2(connection.fileno(), number)
            connection.close()
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.argv = ["attncli", *arguments]
    from attncli.__main__ import main

    main()
