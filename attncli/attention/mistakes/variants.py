"""The formula with mistakes: one, or several, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from attncli.attention.mistakes.formula import RIGHT, Formula, same
from attncli.attention.mistakes.known import Change, Mistake

TOGETHER = (
    "projections",
    "seen",
    "allow",
    "add",
)  # steps that take what they give: one change after the other


def changed(formula: Formula, change: Change) -> Formula | None:
    """The formula with other steps; None where a step has been changed already and can't be changed twice."""
    made: dict[str, Any] = {}
    for name, step in change.items():
        before = getattr(formula, name)
        if name in TOGETHER:
            made[name] = step if before is same else after(before, step)
        elif before is not getattr(RIGHT, name):
            return None
        else:
            made[name] = step
    return replace(formula, **made)


def after(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: second(first(x))


def with_mistakes(formula: Formula, mistakes: Sequence[Mistake], few: int | None = None) -> Iterator[Formula]:
    """The formula with these mistakes, in every way in which each is made; few: in so many at the most."""
    if not mistakes:
        yield formula
        return
    for change in mistakes[0].changes[:few]:
        made = changed(formula, change)
        if made is not None:
            yield from with_mistakes(made, mistakes[1:], few)
