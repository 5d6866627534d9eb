"""The machine finds what is wrong: planted mistakes of every sort are told, and a good call is not."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from hostile.case import Case
from hostile.oracle import wrong
from hostile.place import Place
from hostile.running import Runner, forked

pytestmark = pytest.mark.slow  # of the oracle, not of the program
DONE = Case(("run", "--json"))


@pytest.fixture(autouse=True)
def enough_memory(monkeypatch):
    """A child begins with the memory of this process, which earlier tests made large."""
    monkeypatch.setattr("hostile.oracle.MEMORY", 1 << 40)


def outcome_of(program, case=DONE, **more):
    """Return the outcome of a function that runs as a program in a child process."""

    def call():
        program()
        sys.stdout.flush()
        os._exit(0)

    return forked(call, case, **more)


def end(code, text=""):
    def program():
        sys.stderr.write(text)
        sys.stderr.flush()
        os._exit(code)

    return program


def print_json(document):
    return lambda: print(json.dumps(document))


MODEL = {"name": "x", "path": None, "sha256": None, "layers": 1, "heads": 1, "hidden_size": 4}


def document(rows, **more):
    attention = [{"layer": 0, "head": 0, "weights": rows}]
    record = {"tokens": ["a", "b"], "segments": [0, 0], "mask": "padding", "attention": attention, **more}
    return {"model": MODEL, "records": [record]}


MISTAKES = {
    "a traceback": (lambda: 1 / 0, "Traceback"),
    "a bug line": (end(2, "attncli: error: KeyError (a bug in attncli: --debug shows where)\n"), "bug"),
    "two lines": (end(2, "attncli: error: a\nattncli: error: b\n"), "refuses in 2 lines"),
    "nothing said": (end(2), "refuses in 0 lines"),
    "a long line": (end(2, f"attncli: error: {'x' * 400}\n"), "characters"),
    "another's words": (end(2, "UserWarning: x\nattncli: error: a\n"), "not its own"),
    "another exit code": (end(1, "attncli: x\n"), "ends with exit 1"),
    "an escape": (end(2, "attncli: error: \x1b[31mred\n"), "U+001B"),
    "a signal": (os.abort, "ends with signal 6"),
    "no document": (lambda: print("{"), "no JSON"),
    "NaN": (lambda: print('{"model": NaN}'), "no JSON"),
    "a row of 5": (print_json(document([[4, 1], [1, 0]])), "a row sums to 5"),
    "a hidden weight": (print_json(document([[0.5, 0.5], [1, 0]], mask="causal")), "the mask forbids"),
    "a field that is not stated": (print_json({**document([[1, 0], [1, 0]]), "more": 1}), "Additional properties"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name):
    program, said = MISTAKES[name]
    assert said in (wrong(DONE, outcome_of(program)) or "")


def test_what_is_right_is_not():
    assert wrong(DONE, outcome_of(print_json(document([[1, 0], [0.5, 0.5]])))) is None
    assert wrong(DONE, outcome_of(end(2, "attncli: kept the first 5\nattncli: error: no such layer\n"))) is None


def test_what_never_ends_and_what_takes_all_memory_is_told(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("hostile.running.WAITING", 0.3)
        assert "hangs" in wrong(DONE, outcome_of(lambda: time.sleep(60)))
    monkeypatch.setattr("hostile.oracle.MEMORY", 1 << 20)
    assert "takes" in wrong(DONE, outcome_of(end(0)))


@pytest.fixture
def runner(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "place" / "one.txt").write_text("one\n")
    return Runner(Place(tmp_path / "place"), tmp_path / "here")


def test_files_left_behind_are_told_and_cleared(runner, monkeypatch):
    for name in ("other.npz", "one.txt", "tmp/x", ".attncli-x"):
        case = Case(("run", "-o", "a.npz"))

        def program(*_, name=name):
            os.chdir(runner.folder)
            Path("a.npz").write_bytes(b"asked for")
            Path(name).write_bytes(b"not asked for")
            os._exit(0)

        monkeypatch.setattr("hostile.running.program", program)
        with runner.prepared(case):
            assert wrong(case, runner.run(case)) == f"leaves {name} behind"
        assert (runner.folder / "one.txt").read_text() == "one\n"
        assert sorted(path.name for path in runner.folder.iterdir()) == ["one.txt", "tmp"]
