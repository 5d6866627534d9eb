"""What the machine found, or people before it: each case is as it should be, and stays so."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.fixture(scope="module")
def found():
    """What came of each case, by its name: all of them run in one process, which imports everything once."""
    command = [sys.executable, "-m", "tests.hostile", "--rerun", *map(str, CASES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    assert len(lines) == len(CASES), done.stdout[-2000:] + done.stderr[-2000:]
    return {name: said for name, _, said in lines}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_as_it_should_be(path, found):
    assert found[path.name].startswith("as it should be"), found[path.name]
