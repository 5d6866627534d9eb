"""How far a corpus has been counted, and the file that says so: whoever is interrupted goes on from there."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attncli.analysis.statistics import Sums
from attncli.analysis.statistics_files import of_each, one_or_each
from attncli.base.errors import RequestError
from attncli.base.files import write_whole
from attncli.base.printable import first_line
from attncli.base.untrusted import GARBLED

SAVED_EVERY = 60.0  # seconds: what a power cut costs
ARRAYS = ("totals", "means", "squares", "divergence", "alike")  # of the sums


@dataclass(frozen=True)
class SoFar:
    """What there is of a corpus so far.

    done: all texts before this number are in the sums, and so are those in `ahead`.
    """

    sums: Sums
    done: int = 0
    ahead: frozenset[int] = frozenset()

    def wants(self, text: int) -> bool:
        """Whether a text is not in the sums yet."""
        return text >= self.done and text not in self.ahead

    def plus(self, text: int, sums: Sums) -> "SoFar":
        """And one more text."""
        return SoFar(self.sums + sums, self.done, self.ahead | {text})

    def up_to(self, text: int) -> "SoFar":
        """When nothing before this text is left to count."""
        return SoFar(self.sums, text, frozenset(number for number in self.ahead if number >= text))


class Keeper:
    """Keeps a file to go on from up to date. Where there is no `path`, there is no file, and nothing to go on from.

    asked: what is counted of what, JSON of any kind. A file in which something else had been asked for is refused.
    """

    def __init__(self, path: Path | None, asked: dict[str, Any]) -> None:
        self.path = path
        self.asked = asked
        self.saved = time.monotonic()

    def load(self, nothing: SoFar) -> SoFar:
        """What to go on from; `nothing`, which is what to begin with, where there is none.

        Raises RequestError as `load_so_far` does.
        """
        return nothing if self.path is None else load_so_far(self.path, self.asked, nothing)

    def offer(self, so_far: SoFar) -> None:
        """Save it if the last time was long ago. Raises RequestError for an unwritable place."""
        if time.monotonic() - self.saved > SAVED_EVERY:
            self.save(so_far)

    def save(self, so_far: SoFar) -> None:
        """Raises RequestError for an unwritable place."""
        if self.path is not None:
            save_so_far(so_far, self.asked, self.path)
            self.saved = time.monotonic()


def save_so_far(so_far: SoFar, asked: dict[str, Any], path: Path) -> None:
    """Save what to go on from, with what was `asked` for: JSON of any kind. Whole or not at all.

    Raises RequestError for an unwritable place.
    """
    sums = so_far.sums
    arrays = {name: getattr(sums, name) for name in ARRAYS if getattr(sums, name) is not None}
    numbers = {
        "texts": sums.texts,
        "queries": sums.queries,
        "limit": one_or_each(sums.limit),
        "done": so_far.done,
        "ahead": sorted(so_far.ahead),
        "asked": asked,
    }

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # so that numpy adds no suffix
            np.savez_compressed(file, about=np.array(json.dumps(numbers)), **arrays)

    write_whole(path, write)


def load_so_far(path: Path, asked: dict[str, Any], nothing: SoFar) -> SoFar:
    """What was saved there; `nothing`, which is what to begin with, where there is no such file yet.

    Raises RequestError when it can't be read, is garbled, or something else had been asked for.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            numbers = json.loads(str(file["about"]))
            arrays = {name: file[name] for name in ARRAYS if name in file}
        begun = numbers["asked"]
        limit = of_each(numbers["limit"], len(arrays["totals"]))
        loaded = SoFar(
            Sums(numbers["texts"], numbers["queries"], limit, **arrays),
            numbers["done"],
            frozenset(numbers["ahead"]),
        )
    except FileNotFoundError:
        return nothing
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except GARBLED as error:
        raise RequestError(f"{path} is nothing to go on from: {first_line(error)}") from error
    for name, value in asked.items():
        if begun.get(name) != value:
            raise RequestError(f"{path} was begun with another {name}: ask for the same, or name another file")
    if any(getattr(loaded.sums, name).shape != getattr(nothing.sums, name).shape for name in arrays):
        raise RequestError(f"{path} is nothing to go on from: its shapes are another model's")
    return loaded
