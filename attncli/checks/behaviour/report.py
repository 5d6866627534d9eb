"""The results of the laws for a model."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attncli.base.printable import printable

WORDS = {True: "holds", False: "BROKEN", None: "not checked"}
NOT_PROMISED = "not promised: "  # begins the note on a difference that the model's library does not rule out


class Outcome(NamedTuple):
    """The result of a law on a backend, or of one comparison for it.

    holds: None where it was not checked; the note says why. difference: the largest one between vectors that must be
    equal. tolerance: the difference that rounding explains. position: the token that moved; None where the note names
    what differs. layer, head: the first layer that moved, and its head that moved most; None where no attention module
    shows it. part: encoder, decoder or cross, in a model that has several. cause: the token whose change moved it.
    """

    holds: bool | None
    note: str = ""
    difference: float | None = None
    tolerance: float | None = None
    position: int | None = None
    layer: int | None = None
    head: int | None = None
    part: str = ""
    cause: int | None = None
    law: str = ""
    backend: str = ""
    dtype: str = ""

    @property
    def says(self) -> str:
        """Return the result in words."""
        if self.holds is not False or self.position is None or self.difference is None:
            return self.note
        size = f"{self.difference:.2g}" if math.isfinite(self.difference) else "NaN or infinity"
        layer = "" if self.layer is None else f" in {self.part} layer {self.layer}".replace("  ", " ")
        head = "" if self.head is None else f", head {self.head}"
        cause = "" if self.cause is None else f" when token {self.cause} changes"
        place = f"token {self.position} differs by {size}{layer}{head}{cause}"
        return f"{place} (rounding explains {self.tolerance:.1g}): {self.note}"

    def document(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        document = {"name": self.law, **self._asdict(), "says": self.says}
        del document["law"], document["cause"]
        if self.difference is not None and not math.isfinite(self.difference):
            document["difference"] = None
        return document

    def __str__(self) -> str:
        backend = f" ({self.backend})" if self.backend else ""
        return f"{self.law}{backend}: {WORDS[self.holds]}{f': {self.says}' if self.says else ''}"


@dataclass(frozen=True)
class Behaviour:
    """The results for a model. missing: the reason why a backend could not be run, by its name."""

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
        """Return the result in one sentence."""
        if self.broken:
            laws = dict.fromkeys(f"{one.law} ({one.backend})" if one.backend else one.law for one in self.broken)
            return printable(f"wrong: {self.name} breaks {', '.join(laws)}")
        checked = len({one.law for one in self.outcomes if one.holds is not None})
        return printable(f"right: {self.name} keeps {checked} laws" if self.right else f"{self.name}: nothing checked")

    def document(self) -> dict[str, Any]:
        """Return the results as JSON data, with the fields of a check of attention code, which are empty."""
        backends = {one.backend: "" for one in self.outcomes} | self.missing
        return {
            "name": self.name,
            "kind": self.kind,
            "checks": [one.document() for one in self.outcomes],
            **{"conventions": [], "diagnosis": [], "smallest": None, "hint": None, "maps": None},
            "backends": [
                {"name": name, "available": name not in self.missing, "note": note} for name, note in backends.items()
            ],
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        missing = [f"not checked: {name} ({reason})" for name, reason in self.missing.items()]
        return "\n".join([self.verdict, *map(str, self.broken), *missing])
