"""Shards of a corpus, and the work that is done on each.

A plan cuts the inputs of a corpus into shards, always in the same way. A shard is `shard_bytes` of one file, or of
consecutive files; of a table, whole parts; of a compressed file, all of it. A text belongs to the shard in which it
begins; where texts begin and end is up to their reading.

Nothing here knows what is counted: that is a `Work`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from attncli.base.untrusted import parse_json
from attncli.corpus.files import Input, Piece, is_compressed

SHARD_BYTES = 2**20  # a quarter of a million tokens of English: about a minute of one core with minilm
INFLATED = 4  # the usual size of a compressed text, decompressed, as a multiple

# --- the plan -------------------------------------------------------------------------------------------


class Shard(NamedTuple):
    """Pieces of files that are counted together; number: its place in the plan."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def where(self) -> str:
        """The place as messages name it."""
        first, more = self.pieces[0], len(self.pieces) - 1
        begin = f" from {first.start:,}" if first.start else ""
        return f"{first.input.display_name}{begin}{f' and {more} more' if more else ''}"

    def name(self, request: str) -> str:
        """Return the name of the file with its sums: a digest of its place, its pieces and the request."""
        read = [[piece.input.digest, piece.start, piece.stop] for piece in self.pieces]
        return hashlib.sha256(json.dumps([request, self.number, read]).encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Plan:
    """All shards of a corpus in order, made one at a time.

    end: the number of an input, and a place in it, at which the corpus ends before its files do; None otherwise.
    """

    inputs: Sequence[Input]
    shard_bytes: int = SHARD_BYTES
    end: tuple[int, int] | None = None

    def shards(self) -> Iterator[Shard]:
        number, pieces, room = 0, list[Piece](), self.shard_bytes
        for piece, size in self._units():
            if pieces and size > room:
                yield Shard(number, tuple(pieces))
                number, pieces, room = number + 1, [], self.shard_bytes
            pieces = _joined(pieces, piece)
            room -= size
            if room <= 0:
                yield Shard(number, tuple(pieces))
                number, pieces, room = number + 1, [], self.shard_bytes
        if pieces:
            yield Shard(number, tuple(pieces))

    def _units(self) -> Iterator[tuple[Piece, int]]:
        """Yield the pieces that are not cut any further, with the bytes that they count for."""
        for number, one in enumerate(self.inputs):
            stop = None
            if self.end is not None:
                if number > self.end[0]:
                    return
                stop = self.end[1] if number == self.end[0] else None
            if one.parts is not None:
                yield from _table_units(one, stop)
            elif one.is_stream or is_compressed(one.name):
                yield Piece(one, 0, stop), one.size * (INFLATED if is_compressed(one.name) else 1)
            else:
                last = one.size if stop is None else stop
                for start in range(0, last, self.shard_bytes):
                    to = min(start + self.shard_bytes, last)
                    yield Piece(one, start, to if stop is not None or to < one.size else None), to - start

    @property
    def count(self) -> int:
        """The number of shards."""
        return sum(1 for _ in self.shards())

    @property
    def bytes(self) -> int:
        """The stored bytes of all inputs."""
        return sum(one.size for one in self.inputs)


def _table_units(table: Input, stop: int | None) -> Iterator[tuple[Piece, int]]:
    assert table.parts is not None
    start, rows = 0, max(1, sum(table.parts))
    for count in table.parts:
        to = start + count if stop is None else min(start + count, stop)
        if to > start:
            yield Piece(table, start, to), table.size * (to - start) // rows
        start += count


def _joined(pieces: list[Piece], more: Piece) -> list[Piece]:
    """Return pieces with one more, which continues the last one if it begins at its end."""
    if pieces and pieces[-1].input is more.input and pieces[-1].stop == more.start:
        return [*pieces[:-1], pieces[-1]._replace(stop=more.stop)]
    return [*pieces, more]


# --- the work -------------------------------------------------------------------------------------------

VERSION = 2  # of sums in files
Arrays = dict[str, npt.NDArray[Any]]


Total = TypeVar("Total", bound=Any)  # sums, which add up


class CorpusSize(NamedTuple):
    """The number of texts and tokens that sums cover."""

    texts: int
    tokens: int

    def plus(self, other: "CorpusSize") -> "CorpusSize":
        return CorpusSize(self.texts + other.texts, self.tokens + other.tokens)


# Makes the sums of a shard: yields the sums so far after every step, the last time all of them.
Counts = Callable[[Shard], Iterator[Total]]


class Work(ABC, Generic[Total]):
    """The sums to make of each shard. It is small, and is sent to the processes that count.

    options: the request as JSON, by the names of options; another request has other sums. shard_bytes: the default size
    of a shard, about a minute of a core. needs: modules that processes which count are to import before they start.
    """

    options: dict[str, Any]
    shard_bytes: ClassVar[int] = SHARD_BYTES
    needs: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def fixed(self) -> Mapping[str, int]:
        """The numbers besides the request that the last bit depends on, such as the size of batches."""

    @abstractmethod
    def begin(self, cores: int | None) -> Counts[Total]:
        """Return the function that counts a shard, on so many cores (all by default). Opens a model if it needs one.

        Its sums depend on the shard alone, not on `cores` or on earlier shards.
        """

    @abstractmethod
    def nothing(self) -> Total:
        """Return the sums of no shard."""

    @abstractmethod
    def corpus_size(self, total: Total) -> CorpusSize: ...

    @abstractmethod
    def saved(self, total: Total) -> tuple[dict[str, Any], Arrays]:
        """Return sums as JSON and arrays by name."""

    @abstractmethod
    def loaded(self, about: dict[str, Any], arrays: Arrays) -> Total:
        """Return the sums that `saved` returned. Raises ValueError for sums that no texts have."""

    def on(self, device: str) -> "Work[Total]":
        """Return the same work on another device."""
        return self

    def at(self, fixed: Mapping[str, int] | None, size: int) -> "Work[Total]":
        """Return the same work with the numbers of an earlier run; if None, with numbers for inputs of so many bytes.

        Raises ValueError for numbers that no run has.
        """
        return self

    def without_model(self) -> "Work[Total]":
        """Return the same work without anything that only this process has."""
        return self

    @property
    def digest(self) -> str:
        return hashlib.sha256(
            json.dumps([VERSION, self.options, dict(self.fixed)], sort_keys=True).encode()
        ).hexdigest()

    def sealed(self, total: Total, name: str = "") -> bytes:
        """Return sums as the content of a file: a digest of the rest, then .safetensors.

        name: of the shard (`Shard.name`), which the file states.
        """
        from safetensors.numpy import save

        about, arrays = self.saved(total)
        content: bytes = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            {"about": json.dumps({**about, "shard": name})},
        )
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content

    def unsealed(self, content: bytes, name: str = "") -> Total:
        """Return the sums in the content of a file.

        Raises ValueError if it is not as it was written, or of another shard than that of this name.
        """
        digest, _, inside = content.partition(b"\n")
        if hashlib.sha256(inside).hexdigest().encode() != digest:
            raise ValueError("it is not as it was written")
        about, arrays = _unpacked(inside)
        if about.pop("shard", None) != name:
            raise ValueError("it is of another shard, corpus or request")
        return self.loaded(about, arrays)


def _unpacked(content: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the metadata and the arrays of .safetensors. Raises ValueError for any other content."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: Arrays = load(content)
        length = int.from_bytes(content[:8], "little")
        about = parse_json(parse_json(content[8 : 8 + length])["__metadata__"]["about"])
    except (SafetensorError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"it is no .safetensors with sums ({error})") from error
    if not isinstance(about, dict):
        raise ValueError("it says nothing of itself")
    return about, arrays
