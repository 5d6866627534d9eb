"""How the process of somebody's code ends is read from what Python says as it dies."""

import subprocess
import sys

import pytest

from attncli.checks.theirs.subjects.process import file_of, line_in

CRASH = """Fatal Python error: Segmentation fault

Current thread 0x00007f0c (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/somebody/mine.py", line 5 in attention
  File "/home/somebody/mine.py", line 9 in forward

Thread 0x00007f0d (most recent call first):
  File "/home/somebody/mine.py", line 70 in waiting
"""
LATE = """Timeout (0:00:04)!
Thread 0x00007f0d (most recent call first):
  File "/home/somebody/mine.py", line 70 in waiting

Thread 0x00007f0c (most recent call first):
  File "/usr/lib/python3.11/random.py", line 1 in random
  File "/home/somebody/mine.py", line 5 in attention
"""


def test_where_it_died():
    assert line_in(CRASH, "mine.py") == "5" == line_in(LATE, "mine.py")


@pytest.mark.parametrize("said", ["", "Timeout (0:00:04)!", CRASH[:40], CRASH.replace("mine", "yours")])
def test_where_nothing_is_said_of_it(said):
    assert line_in(said, "mine.py") == ""


def test_another_file_is_not_it():
    assert line_in(CRASH, "yours.py") == "" == line_in(CRASH, "m.ne.py")


@pytest.mark.parametrize(
    ("what", "file"),
    [
        ("a/b.py:C", "b.py"),
        ("a/b.py", "b.py"),
        ("package.module:C", "module.py"),
        ("module", "module.py"),
        ("é☃.py:C", r"\xe9\u2603.py"),
    ],
)
def test_the_file_as_python_writes_it(what, file):
    assert file_of(what) == file


def test_it_starts_without_torch():
    line = "import sys, attncli.checks.theirs.subjects.process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", line], check=False).returncode == 0
