"""Finding out how a positional encoding is called, and what it is: what equals it is it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention.mistakes import Mistake
from attncli.attention.mistakes.known import Change
from attncli.attention.mistakes.of_positions import (
    CONVENTIONS_OF_ADDED,
    CONVENTIONS_OF_LEARNED,
    CONVENTIONS_OF_TURNED,
    MISTAKES_OF_ADDED,
    MISTAKES_OF_TURNED,
)
from attncli.attention.mistakes.placing import Added, Placed, Turned
from attncli.base.errors import RequestError
from attncli.checks.theirs.candidates import candidates
from attncli.checks.theirs.positions.ways import SAY, Case, Way, drawn, ways
from attncli.checks.theirs.subjects.subject import Answer, Description, Subject
from attncli.checks.theirs.telling import why

WITHIN = 1e-4  # a table is often made in float32, whose angles at position 60 are off by some 1e-5
HEADS = 4
FEW = 3  # readings for which two mistakes together are tried


class Family(NamedTuple):
    """What a positional encoding may be."""

    kind: str
    formula: Any
    conventions: Mapping[str, Change]
    mistakes: tuple[Mistake, ...]


OF_TABLES = ("count", "join", "embed")  # steps that learned positions have
SINUSOIDAL = Family("sinusoidal positions", Added(), CONVENTIONS_OF_ADDED, MISTAKES_OF_ADDED)
LEARNED = Family(
    "learned positions",
    Added(),
    CONVENTIONS_OF_LEARNED,
    tuple(one for one in MISTAKES_OF_ADDED if all(set(change) <= set(OF_TABLES) for change in one.changes)),
)
ROTARY = Family("rotary positions", Turned(), CONVENTIONS_OF_TURNED, MISTAKES_OF_TURNED)


class Reading(NamedTuple):
    """A way to call it, and what came out of some cases."""

    way: Way
    cases: tuple[Case, ...]
    results: tuple[Tensor, ...]


@dataclass(frozen=True)
class Fit:
    """How it is called, and what it is."""

    way: Way
    family: Family
    right: Any
    conventions: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    known: bool = True


class Asked:
    """A subject that has been made. table: its learned vectors `[position, d]`, or None."""

    def __init__(self, subject: Subject, table: Tensor | None) -> None:
        self.subject = subject
        self.table = table
        self.dropout = True

    def answers(self, way: Way, case: Case) -> list[Answer]:
        return [self.subject.call(call) for call in way.calls(case, self.dropout)]

    def ask(self, way: Way, case: Case) -> Tensor | None:
        return way.read(self.answers(way, case), case)

    def ours(self, formula: Any, way: Way, case: Case) -> Tensor:
        """What the formula gives. Raises IndexError where a variant asks for what is not there."""
        if way.gives == "turned":
            return formula(Placed(case.x, case.positions))
        x = case.x[0, :, 0] if way.gives == "added" else torch.zeros_like(case.x[0, :, 0])
        return formula(Placed(x, case.positions, self.table))

    def fits(self, formula: Any, one: Reading) -> bool:
        for case, theirs in zip(one.cases, one.results, strict=True):
            try:
                ours = self.ours(formula, one.way, case)
            except IndexError:
                return False
            if far(theirs, ours) and far(theirs, ours, WITHIN * furthest(formula, one) / 100):
                return False
        return True


def furthest(formula: Any, one: Reading) -> float:
    """The largest angle: of thousands float32 leaves little."""
    last = max(int(case.positions.max()) for case in one.cases)
    return float(formula.angles(torch.tensor(last), formula.rates(one.way.d)).abs().max())


def far(theirs: Tensor, ours: Tensor, within: float = WITHIN) -> bool:
    """Whether they differ by more than this, or, where numbers are large, by more than this share of them."""
    if theirs.shape != ours.shape:
        return True
    return not float((theirs - ours).abs().max()) <= within * max(1.0, float(ours.abs().max()))


def readings(
    asked: Asked, description: Description, width: Sequence[int], said: Mapping[str, str], layout: str | None
) -> list[Reading]:
    """All ways to call it that give something of the right shape. Raises RequestError where there are none."""
    found, first = [], None
    for d in width:
        for way in ways(description.call, said, d, layout):
            cases = tuple(way.fitting(case) for case in first_cases(way))
            results = []
            for case in cases:
                answers = asked.answers(way, case)
                first = first or answers[0]
                result = way.read(answers, case)
                if result is None:
                    break
                results.append(result.double())
            if len(results) == len(cases):
                found.append(Reading(way, cases, tuple(results)))
    if not found:
        raise RequestError(f"{description.name} gives no positions: {why(first)}; {SAY}")
    return found


def first_cases(way: Way) -> tuple[Case, Case]:
    """Of lengths that are all different."""
    if way.takes("positions", "positions of each text", "a position"):
        return drawn(3, HEADS, way.d, (3, 0, 9, 1, 4, 8, 2)), drawn(2, HEADS, way.d, (0, 1, 2, 3, 7), 1)
    return drawn(3, HEADS, way.d, range(7)), drawn(2, HEADS, way.d, range(5), 1)


def family_of(way: Way, asked: Asked) -> Family:
    return ROTARY if way.gives == "turned" else SINUSOIDAL if asked.table is None else LEARNED


def fitted(asked: Asked, tried: Sequence[Reading], said: str | None) -> Fit:
    """The first that equals one of them: without a mistake, with one, with two.

    said: the layout, by its own words, in which it is right or has a mistake before it is right in another.
    """
    first = [one for one in tried if is_of(one.way, said)]
    others = [one for one in tried if not is_of(one.way, said)]
    for group, count in ((first, 0), (first, 1), (others, 0), (others, 1), (first[:FEW], 2), (others[:FEW], 2)):
        for family in dict.fromkeys(family_of(one.way, asked).kind for one in group):
            fit = fitted_with(asked, [one for one in group if family_of(one.way, asked).kind == family], count)
            if fit is not None:
                return fit
    one = (first or others)[0]
    family_found = family_of(one.way, asked)
    return Fit(one.way, family_found, family_found.formula, known=False)


def is_of(way: Way, said: str | None) -> bool:
    return way.layout is None or way.layout.name.startswith(said or "")


def fitted_with(asked: Asked, those: Sequence[Reading], count: int) -> Fit | None:
    """With so many mistakes; all are of one family."""
    family = family_of(those[0].way, asked)
    for candidate in candidates(family.formula, family.conventions, family.mistakes, count):
        for one in those:
            if asked.fits(candidate.formula, one):
                return Fit(one.way, family, candidate.base, candidate.conventions, candidate.mistakes)
    return None
