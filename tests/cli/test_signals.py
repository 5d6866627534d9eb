"""TERM and HUP: what was being written is gone, the exit code says which it was, and nothing else is said."""

import random
import signal
import subprocess
import sys
import time

import pytest
from shell import environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

BEGIN = """
import signal, sys, time
from pathlib import Path
from attncli.base.files import write_whole
from attncli.cli import signals

signals.prepare()

def wait(path):
    path.write_text("half of")
    print("now", flush=True)
    try:
        time.sleep(300)
    finally:
        time.sleep(0.3)
"""
WRITE = f"{BEGIN}\nwrite_whole(Path(sys.argv[1]) / 'out.txt', wait)"
IMPORT = f"""{BEGIN}
sys.path.insert(0, sys.argv[1])
try:
    import takes_long
except KeyboardInterrupt:
    print("too late")
"""


@pytest.fixture(autouse=True)
def hang_up():
    """HUP is not ignored, as it would be under a `nohup` around the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def started(program: str, *arguments: object, **more):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("signals", [["SIGTERM"], ["SIGHUP", "SIGTERM"]], ids=str)
def test_what_was_being_written_is_gone(signals, tmp_path):
    process = started(WRITE, tmp_path)
    process.stdout.readline()
    for name in signals:
        process.send_signal(getattr(signal, name))
        time.sleep(0.1)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + getattr(signal, signals[0])
    assert said == "" and list(tmp_path.iterdir()) == []


def test_what_is_ignored_stays_ignored(tmp_path):
    """Ignore a signal like `nohup` does."""
    process = started(WRITE, tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=300)
    assert process.returncode == 143


def test_ctrl_c_during_an_import_ends_it_without_an_exception(tmp_path):
    """Some of torch is in C++, which aborts the program when there is one."""
    (tmp_path / "takes_long.py").write_text("import time; print('now', flush=True); time.sleep(30)")
    process = started(IMPORT, tmp_path, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=300)
    assert (process.returncode, rest, said) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_at_any_moment_of_a_run(name, tmp_path):
    """Interrupt anywhere between the first line of the program and its end: no file is half written."""
    chance, answered, tried, number = random.Random(0), 0, 0, getattr(signal, name)
    command = [sys.executable, "-m", "attncli", "run", "-l", "all", "-o", "x.npz", "word " * 300]
    while answered < 6:
        tried += 1
        assert tried < 100
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        time.sleep(chance.uniform(0.2, 3) * (1 + tried / 10))  # longer and longer on a busy machine
        process.send_signal(number)
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        if process.returncode == -number and "attncli/__main__.py" not in said:
            continue  # Python had not come to the program
        answered += 1
        assert process.returncode in (0, 128 + number)
        assert "Traceback" not in said and "ignored" not in said
        assert [path.name for path in tmp_path.iterdir()] in ([], ["x.npz"])
        (tmp_path / "x.npz").unlink(missing_ok=True)


def test_ctrl_c_while_an_archive_is_written_is_no_mistake(attncli, tmp_path, monkeypatch):
    """zipfile has words of its own for a member that was not closed."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zipfile._ZipWriteFile.close", interrupted)
    result = attncli("run", "-o", "a.npz", "The cat.")
    assert (result.code, result.err, list(tmp_path.iterdir())) == (130, "", [])
