"""The house stands as its plan says: who may import what, and no circle. The rules are in pyproject.toml."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_no_room_imports_what_it_may_not():
    checked = subprocess.run(
        [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "script",
    [
        "bench.corpus",
        "bench.long_texts",
        "bench.maps",
        "bench.sources",
        "page_bench",
        "plant_mistakes",
        "readme",
        "same_outputs",
        "startup",
    ],
)
def test_scripts_beside_the_tests_find_what_they_import(script):
    importlib.import_module(script)
