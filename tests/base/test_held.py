"""A file that one process holds: nobody else gets it, whatever becomes of the file, and nothing is left behind."""

import os
import signal
import subprocess
import sys

import pytest

from attncli import RequestError
from attncli.base import held
from attncli.base.held import HeldFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


def write(content: bytes):
    return lambda file: file.write(content)


def test_a_held_file_is_nobody_elses_before_and_after_it_is_replaced(path):
    holder = HeldFile(path)
    for content in (b"one", b"two"):
        with pytest.raises(RequestError, match=r"state is in use by another attncli: wait until it ends, or name"):
            HeldFile(path)
        holder.save(write(content))
        assert path.read_bytes() == content
    with pytest.raises(RequestError, match="in use"):
        HeldFile(path)
    holder.release()
    HeldFile(path).release()
    assert path.read_bytes() == b"two" and [one.name for one in path.parent.iterdir()] == ["state"]


def test_what_was_replaced_while_it_was_opened_is_not_held(path, monkeypatch):
    """Between opening a file and locking it, whoever had it saves it and ends: what was opened is no file any more."""
    holder, whole, calls = HeldFile(path), held.lock, []

    def lock(handle: int) -> None:
        if not calls:
            calls.append(handle)
            monkeypatch.setattr(held, "lock", whole)
            holder.save(write(b"newer"))
            holder.release()
        whole(handle)

    monkeypatch.setattr(held, "lock", lock)
    second = HeldFile(path)
    assert os.path.samestat(os.fstat(second.handle), path.stat())


def test_a_killed_process_holds_nothing(path):
    program = "import sys; from pathlib import Path; from attncli.base.held import HeldFile\n"
    program += "held = HeldFile(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RequestError, match="in use"):
            HeldFile(path)
        child.send_signal(signal.SIGKILL)
        child.wait()
    HeldFile(path).release()


def test_what_was_made_and_not_used_is_removed(path):
    HeldFile(path).release()
    assert not path.exists()
    path.touch()
    HeldFile(path).release()
    assert path.exists()


def test_a_link_stays_one(path):
    link = path.parent / "link"
    link.symlink_to(path)
    holder = HeldFile(link)
    holder.save(write(b"one"))
    with pytest.raises(RequestError, match="in use"):
        HeldFile(path)
    holder.release()
    assert link.is_symlink() and path.read_bytes() == b"one"


def test_where_there_are_no_locks_files_are_saved_all_the_same(path, monkeypatch):
    monkeypatch.setattr(held, "fcntl", None)
    holder = HeldFile(path)
    holder.save(write(b"one"))
    HeldFile(path).release()
    holder.release()
    assert path.read_bytes() == b"one"


def test_what_is_no_file_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(RequestError, match="is a pipe: name a regular file"):
        HeldFile(path)
    with pytest.raises(RequestError, match=r"can't open .*directory"):
        HeldFile(path.parent)
    with pytest.raises(RequestError, match=r"can't open .*No such file"):
        HeldFile(path.parent / "missing" / "state")
