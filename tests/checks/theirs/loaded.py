"""Programs of the tests, run as files of their own, so that their source can be read."""

import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def loaded(program: str, name: str, folder: Path) -> Any:
    """What a program calls so."""
    # A name of its own: what Python keeps of a file goes by its time and its size, which two programs can share.
    path = folder / f"theirs_{hashlib.sha256(program.encode()).hexdigest()[:16]}.py"
    path.write_text(program, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{abs(hash(folder))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def one_of_each_quick(planted: Sequence[tuple]) -> list:
    """Planted mistakes, each (mistake, where, ...): the first of each is among the quick tests, the others are slow."""
    first = {one[0]: one for one in reversed(planted)}
    return [
        pytest.param(*one, id=f"{one[0]}, {one[1]}", marks=[] if first[one[0]] is one else [pytest.mark.slow])
        for one in planted
    ]
