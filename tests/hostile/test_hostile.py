"""Check that every finding, by the machine or by people, stays fixed, and try a sample of every kind.

`python -m tests.hostile` looks for more, as long as it is told to.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from hostile import kinds

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
NAMES = {path.name for path in CASES}
SAMPLE = 250  # cases


def ran(*options: str) -> list[str]:
    """The lines that it prints."""
    command = [sys.executable, "-m", "tests.hostile", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def found():
    """The results of all cases and of a sample, in one process, which imports everything once."""
    return ran("--rerun", *map(str, CASES), "--cases", str(SAMPLE), "--seed", "1")


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_as_it_should_be(path, found):
    [said] = [line for line in found if line.startswith(f"{path.name}: ")]
    assert said.startswith(f"{path.name}: as it should be"), said


@pytest.mark.slow
def test_nothing_in_a_sample_falls(found):
    tried = [line for line in found if line.partition(": ")[0] not in NAMES]
    assert [line for line in tried if ": " in line] == []
    assert sum(int(row.split()[1]) for row in tried if row.split()[1:2] != ["cases"]) == SAMPLE
    assert {row.split()[0] for row in tried} >= set(kinds.KINDS)
