"""Marking the cases of a test as slow: they run in CI after the quick suite."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return the cases of a parameter of a test; all are marked slow except the quick ones."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
