"""stdin, stdout and stderr of real processes: open, closed, on a full disk, or read by nobody."""

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from shell import environment

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
KINDS = ("open", "closed", "full", "broken")
TEXT = "The cat sat."


@contextmanager
def opened(kind: str, path: Path) -> Iterator[int]:
    """Open a stream of this kind for writing."""
    if kind == "broken":
        reading, handle = os.pipe()
        os.close(reading)
    else:
        handle = os.open("/dev/full" if kind == "full" else path, os.O_WRONLY | os.O_CREAT)
    try:
        yield handle
    finally:
        os.close(handle)


def attncli(folder: Path, *arguments: str, stdin="null", stdout="open", stderr="open", **variables):
    """Exit code, and what stood on stdout and stderr. A stdin that is "silent" is a pipe that nobody writes to."""
    folder.mkdir(exist_ok=True)
    for name in ("out", "err"):
        (folder / name).write_text("")
    closed = [number for number, kind in enumerate((stdin, stdout, stderr)) if kind == "closed"]
    with opened(stdout, folder / "out") as out, opened(stderr, folder / "err") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "attncli", *arguments],
            stdin=subprocess.PIPE if stdin == "silent" else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment(**variables),
            preexec_fn=lambda: [os.close(number) for number in closed],
        )
        code = process.wait(timeout=300)
    if process.stdin is not None:
        process.stdin.close()
    return code, (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.slow
def test_what_cannot_be_printed_is_said_and_what_nobody_reads_is_not(tmp_path):
    words = {
        "closed": (2, "", "attncli: error: can't write to stdout: it is closed\n"),
        "full": (2, "", "attncli: error: can't write to stdout: No space left on device\n"),
        "broken": (0, "", ""),
    }
    assert {kind: attncli(tmp_path, "--version", stdout=kind) for kind in words} == words


@pytest.mark.slow
def test_words_that_are_lost_change_no_exit_code(tmp_path):
    for kind in ("closed", "full", "broken"):
        assert attncli(tmp_path, "nonsense", stderr=kind) == (2, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        (("models",), "null"),
        (("models",), "closed"),
        (("models",), "silent"),
        (("run", "--json", "-l", "0", TEXT), "null"),
    ],
)
def test_all_combinations(command, stdin, tmp_path):
    _, expected, _ = attncli(tmp_path, *command)
    assert expected
    for out, err in product(KINDS, KINDS):
        code, printed, said = attncli(tmp_path, *command, stdin=stdin, stdout=out, stderr=err)
        assert code == (2 if out in ("closed", "full") else 0), (out, err)
        assert printed == (expected if out == "open" else "")
        assert len(said.splitlines()) == (1 if err == "open" and code == 2 else 0), said


@pytest.mark.slow
@pytest.mark.parametrize("command", [("run", "-f", "-"), ("stats", "-"), ("probe", "-")], ids=" ".join)
def test_a_closed_stdin_is_an_empty_one(command, tmp_path):
    for err in KINDS:
        code, printed, said = attncli(tmp_path, *command, stdin="closed", stderr=err)
        assert (code, printed) == (2, "") and "mistake" not in said
        assert len(said.splitlines()) == (1 if err == "open" else 0)


@pytest.mark.slow
def test_no_file_is_taken_for_a_stream_that_was_closed(tmp_path):
    """The lowest number that is free is the next file's. Without a stdout its name can't be printed: an error."""
    for folder, kind, code in (("usual", "open", 0), ("odd", "closed", 2)):
        command = ("run", "-q", "-o", "x.npz", TEXT)
        assert attncli(tmp_path / folder, *command, stdin=kind, stdout=kind, stderr=kind)[0] == code
    usual, odd = tmp_path / "usual", tmp_path / "odd"
    assert {path.name for path in odd.iterdir()} == {path.name for path in usual.iterdir()}
    assert (odd / "x.npz").read_bytes() == (usual / "x.npz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        {"OMP_NUM_THREADS": "-1", "PYTHONWARNINGS": "error"},
        {"OMP_SCHEDULE": "bogus", "MPLCONFIGDIR": "/dev/null/nowhere"},
        {"HOME": "/dev/null/nowhere", "MPLCONFIGDIR": ""},
        {"TMPDIR": "/dev/null/nowhere"},
    ],
    ids=str,
)
def test_what_libraries_say_stays_inside(variables, tmp_path):
    for command in (("run", TEXT), ("heatmap", "-o", "out.svg", TEXT)):
        code, printed, said = attncli(tmp_path, *command, **variables)
        assert (code, said) == (0, "") and printed


@pytest.mark.slow
def test_no_folder_is_left_where_the_compiler_of_torch_was_imported(tmp_path):
    """Remove the folder that torch's compiler makes on import (transformers imports it), unless it has files."""
    pytest.importorskip("transformers")
    command, temporary = ("run", "--engine", "transformers", TEXT), tmp_path / "temporary"
    temporary.mkdir()
    assert attncli(tmp_path / "here", *command, TMPDIR=str(temporary))[0] == 0
    assert list(temporary.iterdir()) == []
    kept = temporary / f"torchinductor_{getpass.getuser()}" / "kept"
    kept.parent.mkdir()
    kept.touch()
    assert attncli(tmp_path / "here", *command, TMPDIR=str(temporary))[0] == 0
    assert kept.exists()


@pytest.mark.slow
def test_a_folder_that_is_gone(tmp_path):
    line = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m attncli run {TEXT!r}"
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (
        done.returncode == 2 and "working directory was removed" in done.stderr and len(done.stderr.splitlines()) == 1
    )
