"""A few cases of every kind, the same each time: nothing falls. `python -m tests.hostile` looks for hours."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.hostile", "--workers", "2"]


def tried(*more: str) -> str:
    done = subprocess.run([*COMMAND, *more], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def test_a_sample_of_every_kind():
    table = tried("--cases", "110", "--seed", "0", "--ours")
    assert " 0     0 " in table.splitlines()[-1]  # fell, ways


@pytest.mark.slow
def test_more_of_every_kind():
    tried("--cases", "1500", "--seed", "1")
