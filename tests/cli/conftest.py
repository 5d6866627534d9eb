"""Running the program as a user does: in this process where that is enough, in one of its own where not."""

import io
import os
import subprocess
import sys
import warnings
from functools import cache, partial
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from attncli.cli import output
from attncli.cli.app import main
from attncli.models.checkpoint_files import Place


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def kept():
    """The default model, once it was read."""
    return {}


@pytest.fixture
def read_once(kept, monkeypatch):
    """The default model is read once and not at each call; others are."""
    from attncli.models import loading
    from attncli.models.devices import pick_device

    def once(load, place: Place, device: str, *how: str):
        if place.name != "minilm" or how not in ((), ("float32", "auto")) or pick_device(device).type != "cpu":
            return load(place, device, *how)
        key = load.__name__, place
        if key not in kept:
            kept[key] = load(place, device, *how)
        return kept[key]

    for load in (loading.load_from, loading.load_instant):
        monkeypatch.setattr(loading, load.__name__, partial(once, load))


@pytest.fixture(scope="session")
def once():
    """The claims, those about random vectors measured once for each seed."""
    from attncli.features.mechanisms.claims import CLAIMS

    def measured_once(claim):
        measured = cache(lambda seed: claim(SimpleNamespace(seed=seed)))
        return lambda trial: measured(trial.seed)

    return CLAIMS | {name: measured_once(CLAIMS[name]) for name in ("division", "saturation")}


@pytest.fixture
def checked_once(once, monkeypatch):
    """`mechanisms` measures claims about random vectors, which do not depend on the model, once."""
    monkeypatch.setattr("attncli.features.mechanisms.claims.CLAIMS", once)


@pytest.fixture
def attncli(capsys, monkeypatch, read_once, checked_once):
    """`attncli("run", "A text.")` -> exit code, stdout, stderr. In this process; stdin is nothing."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setattr(output, "DEBUG", False)
        monkeypatch.setattr(output, "QUIET", False)
        capsys.readouterr()
        with warnings.catch_warnings():
            try:
                main([str(argument) for argument in arguments])
                code = 0
            except SystemExit as end:
                code = end.code or 0
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def process(tmp_path):
    """`process("run", "A text.", stdin=b"", env={...})` -> exit code, stdout, stderr. In a process of its own."""

    def run(*arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "attncli", *map(str, arguments)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=tmp_path,
            timeout=300,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def one_line(result: Result) -> str:
    """The error of a refused request: exit code 2, one line on stderr, nothing on stdout."""
    assert result.code == 2, result
    assert result.out == ""
    lines = result.err.splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("attncli: error: ")
    return lines[0]


@pytest.fixture
def refused(attncli):
    """`refused("run", "-l", "9", "A text.")` -> the one line that says why."""
    return lambda *arguments: one_line(attncli(*arguments))
