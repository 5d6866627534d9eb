"""What is said of one head in other designs."""

from collections.abc import Sequence
from typing import Protocol

from attncli.base.arrays import Floats

DISTANCE, MOVED = "distance (control)", "moved (control)"


class LookLike(Protocol):
    """What is shown of a map (`attncli.checks.looks.Look`)."""

    @property
    def weights(self) -> Floats: ...
    @property
    def entropy(self) -> float: ...
    @property
    def distance(self) -> float: ...
    @property
    def moved(self) -> float: ...


class DesignLike(Protocol):
    """What is shown of a design (`attncli.checks.designs.Design`)."""

    @property
    def described(self) -> str: ...
    @property
    def trained(self) -> bool: ...
    @property
    def look(self) -> LookLike: ...
    @property
    def control(self) -> str: ...
    @property
    def controls(self) -> Sequence[LookLike]: ...
    @property
    def control_distance(self) -> float: ...
    @property
    def control_moved(self) -> float: ...
    @property
    def verdict(self) -> str: ...


def named(design: DesignLike) -> str:
    """ "ALiBi", "relative buckets, untrained" """
    return design.described if design.trained else f"{design.described}, untrained"


def control_of(design: DesignLike) -> str:
    """What the control is, as it stands above its map."""
    return f"control: {design.control}"
