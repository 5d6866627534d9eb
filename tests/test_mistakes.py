"""The mistakes that `plant_mistakes.py` plants can be planted: their texts stand in the package."""

from pathlib import Path

import pytest
from mistakes import FOR_COMPARE, IN_TRANSFORMERS, MISTAKES, Mistake

import attncli
from attncli.attention.mistakes import MISTAKES as LIST

SOURCES = [
    path.read_text(encoding="utf-8")
    for path in sorted(Path(attncli.__file__).parent.rglob("*"))
    if path.suffix in (".py", ".js")
]
KNOWN = [mistake.name for mistake in LIST]


@pytest.mark.parametrize("mistake", [*MISTAKES, *IN_TRANSFORMERS, *FOR_COMPARE], ids=lambda mistake: mistake.name)
def test_what_would_be_replaced_stands_once_in_the_package(mistake: Mistake) -> None:
    assert sum(source.count(mistake.old) for source in SOURCES) == 1
    assert mistake.new != mistake.old


@pytest.mark.parametrize("mistake", [*MISTAKES, *IN_TRANSFORMERS, *FOR_COMPARE], ids=lambda mistake: mistake.name)
def test_what_is_a_known_mistake_is_called_so(mistake: Mistake) -> None:
    known = [one for one in KNOWN if mistake.name.startswith(one)]
    assert known == ([] if mistake.known is None else [mistake.known])
