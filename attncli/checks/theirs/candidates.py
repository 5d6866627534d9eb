"""What a formula with its steps as fields may have become: under conventions, with no mistake, one, or two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, NamedTuple

from attncli.attention.mistakes import Mistake
from attncli.attention.mistakes.known import Change


class Candidate(NamedTuple):
    """base: the formula under conventions, which are named; formula: the same with the mistakes."""

    mistakes: tuple[Mistake, ...]
    conventions: tuple[str, ...]
    formula: Any
    base: Any


def candidates(
    right: Any, conventions: Mapping[str, Change], mistakes: Sequence[Mistake], count: int
) -> Iterator[Candidate]:
    """With so many mistakes, under none, one or two conventions (two mistakes: one at most); the likelier first.

    No two of them change one step.
    """
    for chosen in combinations(mistakes, count):
        for many in range(3 if count < 2 else 2):
            for names in combinations(conventions, many):
                usual = together([conventions[name] for name in names])
                for changes in product(*(mistake.changes for mistake in chosen)):
                    made = None if usual is None else together([usual, *changes])
                    if made is not None and usual is not None:
                        yield Candidate(chosen, names, replace(right, **made), replace(right, **usual))


def together(changes: Sequence[Change]) -> dict[str, Any] | None:
    """None where two of them change one step."""
    made: dict[str, Any] = {}
    for change in changes:
        if set(change) & set(made):
            return None
        made.update(change)
    return made
