"""A folder of sums that one process holds: nobody else gets it, whatever becomes of the process."""

import signal
import subprocess
import sys

import pytest

from attncli import RequestError
from attncli.corpus import folder
from attncli.corpus.folder import Local


@pytest.fixture
def sums(tmp_path):
    return Local(tmp_path / "sums", "sums")


def test_a_held_folder_is_nobody_elses(sums):
    wanted = "sums is in use by another attncli: wait until it ends, or name another folder"
    with sums.locked(), pytest.raises(RequestError, match=wanted):
        sums.locked().__enter__()
    with sums.locked():
        pass
    assert not sums.path.exists()


def test_a_lock_that_its_holder_removed_while_it_was_opened_is_made_again(sums, monkeypatch):
    """The process that held the lock removes the file after it is opened here and before it is locked."""
    lock, calls = folder._lock, []
    holder = sums.locked()
    holder.__enter__()

    def end_and_lock(handle: int) -> None:
        if not calls:
            calls.append(handle)
            (sums.path / "kept").touch()
            holder.__exit__(None, None, None)
        lock(handle)

    monkeypatch.setattr(folder, "_lock", end_and_lock)
    with sums.locked(), pytest.raises(RequestError, match="in use"):
        sums.locked().__enter__()


def test_a_killed_process_holds_nothing(sums):
    program = "import sys; from pathlib import Path; from attncli.corpus.folder import Local\n"
    program += "held = Local(Path(sys.argv[1]), 'sums').locked(); held.__enter__()\n"
    program += "print('held', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(sums.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RequestError, match="in use"):
            sums.locked().__enter__()
        child.send_signal(signal.SIGKILL)
        child.wait()
    with sums.locked():
        pass


def test_where_there_are_no_locks_a_folder_is_used_all_the_same(sums, monkeypatch):
    monkeypatch.setattr(folder, "fcntl", None)
    with sums.locked():
        sums.write("plan.json", b"{}")
    assert sums.names() == {"plan.json"}


def test_a_lock_that_is_a_folder_is_refused(sums):
    (sums.path / "lock").mkdir(parents=True)
    with pytest.raises(RequestError, match=r"can't open .*directory"):
        sums.locked().__enter__()
