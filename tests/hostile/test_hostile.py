"""Check that every finding stays fixed, and try a sample of damaged files.

`python -m tests.hostile --cases 1000` looks for more.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
SAMPLE = 150


@pytest.fixture(scope="module")
def found():
    """The lines about all cases and a sample, from one process, which imports everything once."""
    options = ["--rerun", *map(str, CASES), "--cases", str(SAMPLE), "--seed", "1"]
    command = [sys.executable, "-m", "tests.hostile", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_as_it_should_be(path, found):
    [said] = [line for line in found if line.startswith(f"{path.name}: ")]
    assert said.startswith(f"{path.name}: as it should be"), said


@pytest.mark.slow
def test_nothing_in_a_sample_falls(found):
    [*fell, count] = found[len(CASES) :]
    assert fell == [] and count.startswith(f"{SAMPLE} damaged files, ")
