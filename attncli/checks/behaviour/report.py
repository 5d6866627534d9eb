"""The results of the laws for a model."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attncli.base.printable import printable

WORDS = {True: "holds", False: "BROKEN", None: "not checked"}


class Leak(NamedTuple):
    """The largest difference between numbers that must be equal, and where it is.

    difference: of the vectors there; tolerance: what rounding explains of it. position: the token that moved; layer,
    head: the first layer that moved, and its head that moved most; None where no attention module shows it. part:
    encoder, decoder or cross, in a model that has several.
    """

    difference: float
    tolerance: float
    position: int | None = None
    layer: int | None = None
    head: int | None = None
    part: str = ""

    @property
    def counted(self) -> bool:
        """Return whether the difference is a count of tokens or heads, which the note names."""
        return self.tolerance == 0.0

    @property
    def real(self) -> bool:
        return not self.difference <= self.tolerance  # NaN is a leak too

    def __str__(self) -> str:
        place = [] if self.position is None else [f"token {self.position}"]
        if self.layer is not None:
            place.append(f"{self.part} layer {self.layer}".strip())
        if self.head is not None:
            place.append(f"head {self.head}")
        where = f" ({', '.join(place)})" if place else ""
        size = f"{self.difference:.2g}" if math.isfinite(self.difference) else "no number"
        return f"differs by {size}{where}, of which rounding explains {self.tolerance:.1g}"


class Outcome(NamedTuple):
    """The result of a law on a backend. holds: None where it was not checked; `note` says why.

    leak: the largest difference found, whether it breaks the law or not.
    """

    law: str
    backend: str
    holds: bool | None
    leak: Leak | None = None
    note: str = ""
    dtype: str = ""

    def document(self) -> dict[str, Any]:
        leak = self.leak
        finite = leak is not None and math.isfinite(leak.difference)
        return {
            "name": self.law,
            "holds": self.holds,
            "difference": leak.difference if leak is not None and finite else None,
            "note": self.note,
            "backend": self.backend,
            "tolerance": None if leak is None else leak.tolerance,
            "position": None if leak is None else leak.position,
            "part": "" if leak is None else leak.part,
            "layer": None if leak is None else leak.layer,
            "head": None if leak is None else leak.head,
            "dtype": self.dtype,
            "says": self.says,
        }

    @property
    def says(self) -> str:
        """Return the result in words."""
        if self.holds is not False or self.leak is None:
            return self.note
        return self.note if self.leak.counted else f"{self.leak}: {self.note}"

    def __str__(self) -> str:
        return f"{self.law} ({self.backend}): {WORDS[self.holds]}{f': {self.says}' if self.says else ''}"


@dataclass(frozen=True)
class Behaviour:
    """The results for a model. missing: why a backend could not be run, by its name."""

    name: str
    kind: str
    outcomes: tuple[Outcome, ...]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.holds is False]

    @property
    def right(self) -> bool:
        return not self.broken and any(one.holds for one in self.outcomes)

    @property
    def verdict(self) -> str:
        if self.broken:
            laws = ", ".join(dict.fromkeys(f"{one.law} ({one.backend})" for one in self.broken))
            return printable(f"wrong: {self.name} breaks {laws}")
        checked = len({one.law for one in self.outcomes if one.holds is not None})
        return printable(f"right: {self.name} keeps {checked} laws" if self.right else f"{self.name}: nothing checked")

    def document(self) -> dict[str, Any]:
        ran = list(dict.fromkeys(one.backend for one in self.outcomes))
        backends = [{"name": name, "available": True, "note": ""} for name in ran]
        backends += [{"name": name, "available": False, "note": why} for name, why in self.missing.items()]
        return {
            "name": self.name,
            "kind": self.kind,
            "checks": [one.document() for one in self.outcomes],
            "conventions": [],
            "diagnosis": [],
            "smallest": None,
            "hint": None,
            "maps": None,
            "backends": backends,
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        return "\n".join([self.verdict, *map(str, self.broken)])
