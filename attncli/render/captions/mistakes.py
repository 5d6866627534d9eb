"""What is said of one head with the mistakes that people make."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from attncli.base.arrays import Floats

AS_IT_IS = "as it is"
EXCHANGED = "maps exchanged"
SEEN = 5e-4  # of a row's weight: what three decimals show


class MistakeLike(Protocol):
    """What is said of a mistake (`attncli.attention.mistakes.Mistake`)."""

    @property
    def name(self) -> str: ...
    @property
    def says(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def needs(self) -> str: ...


class MovedLike(Protocol):
    """How far a layer is from what it is (`attncli.checks.planted.Moved`)."""

    @property
    def own(self) -> float: ...
    @property
    def of_others(self) -> float | None: ...
    @property
    def output(self) -> float: ...


class MadeLike(Protocol):
    """A mistake in a layer (`attncli.checks.planted.Made`)."""

    @property
    def mistake(self) -> MistakeLike: ...
    @property
    def weights(self) -> Floats | None: ...
    @property
    def moved(self) -> MovedLike | None: ...


class MistakesLike(Protocol):
    """All of them (`attncli.checks.planted.Mistakes`)."""

    @property
    def made(self) -> Sequence[MadeLike]: ...
    @property
    def exchanged(self) -> MovedLike | None: ...


def changed_maps(mistakes: MistakesLike) -> Iterator[tuple[str, Floats]]:
    """The names of the mistakes that change the head's own map so that it can be seen, and what becomes of it."""
    for one in mistakes.made:
        if one.weights is not None and one.moved is not None and not one.moved.own < SEEN:
            yield one.mistake.name, one.weights
