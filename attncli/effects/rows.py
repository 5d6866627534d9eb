"""What is found of texts one by one, and kept so: a row of numbers a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.base.arrays import Doubles
from attncli.effects.questions import Question


@dataclass(frozen=True)
class Rows:
    """Arrays by their names, `[text, ...]` each, of texts in their order.

    kind, about: of what is asked of the first of them, "" where there is none.
    """

    arrays: dict[str, Any]
    kind: str = ""
    about: str = ""

    @classmethod
    def of(cls, asked: Question, **numbers: Doubles | float) -> "Rows":
        """That of one text."""
        return cls({name: np.asarray(number)[None] for name, number in numbers.items()}, asked.kind, asked.about)

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __add__(self, other: "Rows") -> "Rows":
        return joined([self, other])


def joined(parts: Sequence[Rows]) -> Rows:
    """All of them, one after the other."""
    first = next((part for part in parts if len(part)), parts[0])
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].arrays}
    return Rows(arrays, first.kind, first.about)
