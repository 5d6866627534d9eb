"""What checking somebody's attention found: checks, and a diagnosis."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attncli.base import choices
from attncli.base.arrays import Floats
from attncli.base.printable import printable
from attncli.record import AttentionRecord


class Wanted(NamedTuple):
    """What is asked for.

    layout, means: of arrays and masks, where they are not to be found out. map: the role
    of a parameter, or the part that a weight is, by its name. give: arguments for the constructor, by name. nowhere:
    what a query that may see nothing may give.
    """

    layout: str | None = None
    means: choices.MaskMeans | None = None
    map: Mapping[str, str] = {}
    give: Mapping[str, Any] = {}
    nowhere: choices.Nowhere = "any"


class Check(NamedTuple):
    """One check. holds: None where it could not be made, and `note` says why. difference: the largest absolute one."""

    name: str
    holds: bool | None
    difference: float | None = None
    note: str = ""

    def document(self) -> dict[str, Any]:
        """JSON has no infinity."""
        finite = self.difference is not None and math.isfinite(self.difference)
        return {**self._asdict(), "difference": self.difference if finite else None}


class Diagnosed(NamedTuple):
    """A mistake that explains what came out. line, text: where it may be, a guess, by looking for the operation."""

    mistake: str
    says: str
    remedy: str
    line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        where = f"line {self.line} has `{self.text}` (a guess, by what it does): " if self.line else ""
        return f"{where}{self.remedy}"


class Maps(NamedTuple):
    """One head of a layer on a text: its map as somebody's attention gives it with the layer's weights, and as it is.

    theirs, ours: `[query, key]`; theirs is None where it can't be seen.
    """

    record: AttentionRecord
    theirs: Floats | None
    ours: Floats

    def document(self) -> dict[str, Any]:
        [layer], [head] = self.record.layers, self.record.heads
        theirs = None if self.theirs is None else self.theirs.tolist()
        return {
            "layer": layer,
            "head": head,
            "tokens": list(self.record.tokens.text),
            "shown": list(self.record.tokens.shown),
            "theirs": theirs,
            "ours": self.ours.tolist(),
        }


FEW = 3  # checks that a verdict names
MUST = ("masks",)  # checks without which "right" would be said of half of it


@dataclass(frozen=True)
class Found:
    """What was found.

    name: of what was handed in, file: where it stands. conventions: in words, what is right in another way than ours.
    smallest: where no mistake explains it, in words, the smallest input on which it differs, and both results.
    unchecked: the parameters that were never given. hint:
    the option under which it would be right. maps: of a real layer, whose weights were put into it.
    """

    name: str
    file: str
    kind: str
    checks: tuple[Check, ...]
    conventions: tuple[str, ...] = ()
    diagnosis: tuple[Diagnosed, ...] = ()
    smallest: str = ""
    unchecked: tuple[str, ...] = ()
    hint: str = ""
    maps: Maps | None = None

    def __repr__(self) -> str:
        """<Found: right: MyAttention is attention>"""
        return printable(f"<Found: {self.verdict}>")

    @property
    def right(self) -> bool:
        """Whether nothing that was checked is wrong, and something was."""
        holds = [check.holds for check in self.checks]
        return False not in holds and True in holds

    @property
    def verdict(self) -> str:
        """In a sentence."""
        wrong = [check for check in self.checks if check.holds is False]
        if not wrong:
            under = f", {'; '.join(self.conventions)}" if self.conventions else ""
            missing = [check.name for check in self.checks if check.holds is None and check.name in MUST]
            missed = f"; not checked: {', '.join([*missing, *self.unchecked])}" if missing or self.unchecked else ""
            return f"right: {self.name} is {self.kind}{under}{missed}"
        if not self.diagnosis:
            names = ", ".join(check.name for check in wrong[:FEW])
            count = f"{len(wrong)} of {len(self.checks)} checks ({names}{', ...' if len(wrong) > FEW else ''})"
            return f"wrong: {self.name} differs in {count}, and no known mistake explains it"
        return f"wrong: {self.name} is {self.kind} {', and '.join(one.says for one in self.diagnosis)}"

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "checks": [check.document() for check in self.checks],
            "conventions": list(self.conventions),
            "diagnosis": [one._asdict() for one in self.diagnosis],
            "smallest": self.smallest or None,
            "unchecked": list(self.unchecked),
            "hint": self.hint or None,
            "maps": None if self.maps is None else self.maps.document(),
            "verdict": self.verdict,
            "right": self.right,
        }

    def __str__(self) -> str:
        """The verdict, and what to change."""
        return "\n".join([self.verdict, *map(str, self.diagnosis), *filter(None, [self.smallest, self.hint])])
