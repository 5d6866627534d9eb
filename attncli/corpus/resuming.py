"""How far a corpus has been counted, and the file that says so: whoever is interrupted goes on from there.

It knows what it counted: the sums are of the texts that it has a digest of, whichever files these stand in. More texts
may have come after them; a corpus that begins with others is refused.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from attncli.analysis.ranges import check_sums
from attncli.analysis.statistics import Sums
from attncli.analysis.statistics_files import of_each, one_or_each
from attncli.base.errors import Notice, RequestError
from attncli.base.held import HeldFile
from attncli.base.printable import first_line
from attncli.base.schema import anything, each, fields, maybe, text, whole
from attncli.base.untrusted import parse_json, read_npz
from attncli.corpus.packed import TEXTS_SORTED
from attncli.corpus.reading import Line

SAVED_EVERY = 60.0  # seconds: what a power cut costs
ARRAYS = ("totals", "means", "squares", "divergence", "alike")  # of the sums
ABOUT = fields(  # what it says beside its arrays; older files lack the last two
    {
        "texts": whole(),
        "queries": whole(),
        "limit": anything,
        "done": whole(),
        "ahead": each(whole()),
        "asked": anything,
    },
    {"read": whole(), "digest": maybe(text(64))},
)


@dataclass(frozen=True)
class SoFar:
    """What there is of a corpus so far.

    done: all texts before this number are in the sums, save those that were passed over; and so are those in `ahead`.
    read: all texts before this number have been read. From `done` on they are a group that is being counted
    (`attncli.corpus.packed`).
    digest: of the texts that have been read; None where an older version had not noted it.
    """

    sums: Sums
    done: int = 0
    ahead: frozenset[int] = frozenset()
    read: int = 0
    digest: str | None = None

    def wants(self, text: int) -> bool:
        """Whether a text is not in the sums yet."""
        return text >= self.done and text not in self.ahead

    def plus(self, text: int, sums: Sums) -> "SoFar":
        """And one more text."""
        return replace(self, sums=self.sums + sums, ahead=self.ahead | {text})

    def reading(self, count: int) -> "SoFar":
        """With a group of so many texts that is being counted."""
        return replace(self, read=self.done + count)

    def with_all_read(self) -> "SoFar":
        """When nothing is left to count of what has been read."""
        return replace(self, done=self.read, ahead=frozenset())


class Fingerprint:
    """The texts of a corpus while they are read: whether they are those that were counted before, and their digest."""

    def __init__(self, begun: SoFar, path: Path | None) -> None:
        self.begun = begun
        self.path = path
        self.count = 0
        self.sha256 = hashlib.sha256()  # of all that were read
        self.before = self.sha256  # of all but the last

    def numbered(self, lines: Iterable[Line]) -> Iterator[tuple[int, Line]]:
        """Those that are still to be counted, or in a group with such, with their numbers.

        Raises RequestError when they are not those that were counted before.
        """
        for number, line in enumerate(lines):
            content = line.text.encode("utf-8", "surrogatepass")  # which JSON may hold
            self.before = self.sha256.copy()
            self.sha256.update(len(content).to_bytes(8, "little") + content)
            self.count = number + 1
            if self.count == self.begun.read and self.begun.digest not in (None, self.sha256.hexdigest()):
                raise RequestError(
                    f"{self.path} is of another corpus: some of the first {self.count:,} texts here are not those that "
                    "it counted; put them back, or name another file"
                )
            if number >= self.begun.done:
                yield number, line
        if self.count < self.begun.read:
            raise RequestError(
                f"{self.path} is of another corpus: it has read {self.begun.read:,} texts, and here are "
                f"{self.count:,}; put them back, or name another file"
            )

    def signed(self, counted: Iterable[SoFar]) -> Iterator[SoFar]:
        """What there is after every batch, with the digest of what it has read: a long text comes one too early."""
        for so_far in counted:
            read = self.sha256 if so_far.read == self.count else self.before
            yield replace(so_far, digest=read.hexdigest())


class Keeper:
    """Keeps a file to go on from up to date, which no other process may have meanwhile (`with Keeper(...)`). Where
    there is no `path`, there is no file, and nothing to go on from.

    asked: what is counted of what, JSON of any kind. A file in which something else had been asked for is refused.
    kept: what is in the file.
    """

    def __init__(self, path: Path | None, asked: dict[str, Any]) -> None:
        self.path = path
        self.asked = asked
        self.saved = time.monotonic()
        self.kept: SoFar | None = None
        self.held: HeldFile | None = None

    def __enter__(self) -> "Keeper":
        """Raises RequestError as `HeldFile` does."""
        if self.path is not None:
            self.held = HeldFile(self.path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.held is not None:
            self.held.release()

    def load(self, nothing: SoFar) -> SoFar:
        """What to go on from; `nothing`, which is what to begin with, where there is none.

        Raises RequestError as `load_so_far` does.
        """
        self.kept = nothing if self.path is None else load_so_far(self.path, self.asked, nothing)
        return self.kept

    def offer(self, so_far: SoFar) -> None:
        """Save it if the last time was long ago."""
        if time.monotonic() - self.saved > SAVED_EVERY:
            self.save(so_far)

    def save(self, so_far: SoFar) -> None:
        """Save it if it is new. What was counted is not lost to a full disk: a Notice says that it could not be."""
        if self.held is None or so_far is self.kept:
            return
        self.saved = time.monotonic()
        try:
            self.held.save(lambda file: write_so_far(so_far, self.asked, file))
        except RequestError as error:
            warnings.warn(f"{error}: there is nothing newer to go on from", Notice, stacklevel=2)
        else:
            self.kept = so_far


def write_so_far(so_far: SoFar, asked: dict[str, Any], file: BinaryIO) -> None:
    """What to go on from, with what was `asked` for: JSON of any kind."""
    sums = so_far.sums
    arrays = {name: getattr(sums, name) for name in ARRAYS if getattr(sums, name) is not None}
    about = {
        "texts": sums.texts,
        "queries": sums.queries,
        "limit": one_or_each(sums.limit),
        "done": so_far.done,
        "ahead": sorted(so_far.ahead),
        "read": so_far.read,
        "digest": so_far.digest,
        "asked": asked,
    }
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


def load_so_far(path: Path, asked: dict[str, Any], nothing: SoFar) -> SoFar:
    """What was saved there; `nothing`, which is what to begin with, where the file is empty.

    A Notice says so when an older version saved it, which did not know the texts but only the names of their files.

    Raises RequestError when it can't be read, is garbled, no texts have such sums, or something else had been asked
    for.
    """
    try:
        if path.stat().st_size == 0:
            return nothing
        arrays = read_npz(path, needed=("about",))
        about = parse_json(str(arrays.pop("about")))
        ABOUT(about, "it")
        fields({}, dict.fromkeys(asked, anything))(about["asked"], "asked")
        for name, value in asked.items():
            known_better = name == "corpus" and about.get("digest") is not None  # by its texts
            if about["asked"].get(name) != value and not known_better:
                raise RequestError(f"{path} was begun with another {name}: ask for the same, or name another file")
        loaded = so_far_of(about, arrays, nothing.sums)
    except OSError as error:
        raise RequestError(f"can't read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RequestError(f"{path} is nothing to go on from ({first_line(error)}): name another file") from error
    if loaded.digest is None:
        warnings.warn(
            f"{path} is of an older version, which noted no texts: whether they are still the same can't be checked",
            Notice,
            stacklevel=2,
        )
    return loaded


def so_far_of(about: dict[str, Any], arrays: dict[str, Any], nothing: Sums) -> SoFar:
    """What a file says, with arrays of the shapes that `nothing` has.

    Raises ValueError where there are no such sums, or they are not of these texts.
    """
    texts, queries, done, ahead = (about[name] for name in ("texts", "queries", "done", "ahead"))
    read = about.get("read", max([done, *(number + 1 for number in ahead)]))
    if ahead != sorted(set(ahead)) or not all(done <= number < read for number in ahead):
        raise ValueError("its texts come twice, or were never read")
    if not (done <= read <= done + TEXTS_SORTED and len(ahead) <= texts <= done + len(ahead)):
        raise ValueError(f"its counts don't agree: {texts} texts, of {done} and {len(ahead)} more")
    shapes = {name: getattr(nothing, name).shape for name in ARRAYS if getattr(nothing, name) is not None}
    if "alike" not in arrays:
        del shapes["alike"]  # of which older versions had none
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise ValueError("its shapes are another model's")
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise ValueError("its sums are no doubles")
    sums = Sums(texts, queries, of_each(about["limit"], len(nothing.limit)), **arrays)
    check_sums(sums)
    return SoFar(sums, done, frozenset(ahead), read, about.get("digest"))
