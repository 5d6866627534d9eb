"""A file that one process holds: nobody else gets it, whatever becomes of the file, and nothing is left behind."""

import os
import signal
import subprocess
import sys

import pytest

from attncli import RequestError
from attncli.base import locked_file
from attncli.base.locked_file import LockedFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


def write(content: bytes):
    return lambda file: file.write(content)


def test_a_held_file_is_nobody_elses_before_and_after_it_is_replaced(path):
    holder = LockedFile(path)
    for content in (b"one", b"two"):
        with pytest.raises(RequestError, match=r"state is in use by another attncli: wait until it ends, or name"):
            LockedFile(path)
        holder.save(write(content))
        assert path.read_bytes() == content
    with pytest.raises(RequestError, match="in use"):
        LockedFile(path)
    holder.release()
    LockedFile(path).release()
    assert path.read_bytes() == b"two" and [one.name for one in path.parent.iterdir()] == ["state"]


def test_what_was_replaced_while_it_was_opened_is_not_held(path, monkeypatch):
    """Between opening a file and locking it, whoever had it saves it and ends: what was opened is no file any more."""
    holder, whole, calls = LockedFile(path), locked_file.lock, []

    def lock(handle: int) -> None:
        if not calls:
            calls.append(handle)
            monkeypatch.setattr(locked_file, "lock", whole)
            holder.save(write(b"newer"))
            holder.release()
        whole(handle)

    monkeypatch.setattr(locked_file, "lock", lock)
    second = LockedFile(path)
    assert os.path.samestat(os.fstat(second.handle), path.stat())


def test_a_killed_process_holds_nothing(path):
    program = "import sys; from pathlib import Path; from attncli.base.locked_file import LockedFile\n"
    program += "held = LockedFile(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RequestError, match="in use"):
            LockedFile(path)
        child.send_signal(signal.SIGKILL)
        child.wait()
    LockedFile(path).release()


def test_what_was_made_and_not_used_is_removed(path):
    LockedFile(path).release()
    assert not path.exists()
    path.touch()
    LockedFile(path).release()
    assert path.exists()


def test_a_link_stays_one(path):
    link = path.parent / "link"
    link.symlink_to(path)
    holder = LockedFile(link)
    holder.save(write(b"one"))
    with pytest.raises(RequestError, match="in use"):
        LockedFile(path)
    holder.release()
    assert link.is_symlink() and path.read_bytes() == b"one"


def test_where_there_are_no_locks_files_are_saved_all_the_same(path, monkeypatch):
    monkeypatch.setattr(locked_file, "fcntl", None)
    holder = LockedFile(path)
    holder.save(write(b"one"))
    LockedFile(path).release()
    holder.release()
    assert path.read_bytes() == b"one"


def test_what_is_no_file_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(RequestError, match="is a pipe: name a regular file"):
        LockedFile(path)
    with pytest.raises(RequestError, match=r"can't open .*directory"):
        LockedFile(path.parent)
    with pytest.raises(RequestError, match=r"can't open .*No such file"):
        LockedFile(path.parent / "missing" / "state")
