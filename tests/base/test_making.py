"""Folders for files in the making: gone with whoever made them, however that ended, and nobody else's ever."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attncli.base import files as making
from attncli.base.files import write_whole

pytest.importorskip("fcntl")

AT_WORK = """
import sys, time
from pathlib import Path
from attncli.base.files import write_whole

def write(path):
    path.write_text("half of")
    print(path.parent, flush=True)
    time.sleep(60)

write_whole(Path(sys.argv[1]), write)
"""


@pytest.fixture
def at_work(tmp_path):
    """A process in the midst of writing into the folder, for over a second."""
    process = subprocess.Popen(
        [sys.executable, "-c", AT_WORK, str(tmp_path / "theirs.txt")], stdout=subprocess.PIPE, text=True
    )
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def age(folder) -> None:
    os.utime(folder, (time.time() - 100,) * 2)


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(at_work, tmp_path):
    process, folder = at_work
    age(folder)
    write_whole(tmp_path / "ours.txt", lambda path: path.write_text("x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, "ours.txt"])
    process.kill()
    process.wait()
    write_whole(tmp_path / "ours.txt", lambda path: path.write_text("y"))
    assert [path.name for path in tmp_path.iterdir()] == ["ours.txt"]


def test_what_is_not_certainly_left_by_the_dead_stays(tmp_path):
    """Another machine's, one that was made this moment, another program's, a file, and a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x")
    names = [".attncli-00000000-aaaa", ".attncli-notes", "attncli-x"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / f"{making.PREFIX}file").write_text("x")
    (tmp_path / f"{making.PREFIX}link").symlink_to(tmp_path / "elsewhere")
    for path in tmp_path.iterdir():
        age(path)
    (tmp_path / f"{making.PREFIX}new").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with making.making(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
