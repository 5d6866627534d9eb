"""What `attncli check` makes of attention that is right and of attention in which a mistake is planted, as a table.

python tests/check_table.py                 all of it, some minutes
python tests/check_table.py "no scale" ...  some mistakes
"""

import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from checks.theirs.loaded import loaded
from checks.theirs.right import RIGHT, Right
from checks.theirs.wrong import NAME, PAIRS, PLANTED, Planted, source

from attncli.base.errors import RequestError
from attncli.checks.code.check import check
from attncli.checks.code.result import Result

FIELDS = {"--mask-means": "means", "--nowhere": "nowhere"}
ALONE = tuple((one,) for one in PLANTED)


class Named(NamedTuple):
    """What was planted, whether it was found wrong, the mistakes that were named, and what was said."""

    planted: tuple[Planted, ...]
    wrong: bool
    names: tuple[str, ...]
    said: str

    @property
    def hit(self) -> bool:
        """Whether what was planted was named, and nothing else."""
        return sorted(self.names) == sorted(one.mistake for one in self.planted)

    def __str__(self) -> str:
        told = "+".join(self.names) or self.said
        return f"{' + '.join(one.mistake for one in self.planted)}, {self.planted[0].style}: {told}"


@cache
def found_in(*planted: Planted) -> Named:
    """What `check` finds in the program with these mistakes."""
    style = planted[0].style
    said = iter(planted[0].options)
    wanted = {FIELDS[option]: next(said) for option in said}
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = check(loaded(source(*planted), NAME[style], Path(folder)), **wanted)
        except RequestError as error:
            return Named(planted, False, (), f"refused: {error}")
    return Named(planted, not found.right, tuple(one.mistake for one in found.diagnosis), found.verdict)


def found_right(right: Right) -> Result:
    assert not right.options
    return check(getattr(importlib.import_module(f"checks.theirs.{right.path.stem}"), right.name))


def table(all_named: Sequence[Named]) -> Iterator[str]:
    """A line a mistake, or two of them: how often it was named, and then those that were not."""
    hits: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for one in all_named:
        name = " + ".join(planted.mistake for planted in one.planted)
        counts[name] += 1
        hits[name] += one.hit
    yield from (f"{name:60s} {hits[name]} of {counts[name]}" for name in counts)
    yield f"{'all':60s} {hits.total()} of {counts.total()}"
    yield from (f"missed: {one}" for one in all_named if not one.hit)


def main(only: Sequence[str]) -> None:
    for planted in (ALONE, PAIRS):
        chosen = [each for each in planted if not only or {one.mistake for one in each} & set(only)]
        print(*table([found_in(*each) for each in chosen]), "", sep="\n")
    if not only:
        found = {right.name: found_right(right) for right in RIGHT}
        print(f"right: {sum(one.right for one in found.values())} of {len(found)}")
        print(*(f"{name}: {one.verdict}" for name, one in found.items() if not one.right), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
