"""A plan: the inputs of a corpus cut into shards, always in the same way.

A shard is as many bytes of one file, or of files that follow each other, as `shard_bytes`; of a table whole parts, of a
compressed file all of it. What a text is and where it ends is for whoever reads it: a text is of the shard in which it
begins.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attncli.corpus.inputs.files import Input, Piece
from attncli.corpus.inputs.kinds import is_compressed

SHARD_BYTES = 2**20  # a quarter of a million tokens of English: about a minute of one core with minilm
INFLATED = 4  # times its size that a compressed text has, about


class Shard(NamedTuple):
    """What is counted at once; number: its place in the plan."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def where(self) -> str:
        """As messages say it."""
        first, more = self.pieces[0], len(self.pieces) - 1
        begin = f" from {first.start:,}" if first.start else ""
        return f"{first.input.shown}{begin}{f' and {more} more' if more else ''}"

    def name(self, request: str) -> str:
        """A digest of its place, what is read and what is asked of that: the name of the file with its sums."""
        read = [[piece.input.digest, piece.start, piece.stop] for piece in self.pieces]
        return hashlib.sha256(json.dumps([request, self.number, read]).encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Plan:
    """All shards of a corpus, in their order; they are made when they are asked for, and never there at once.

    end: the input by its number, and the place in it, at which the corpus ends before its files do; None where not.
    """

    inputs: Sequence[Input]
    shard_bytes: int = SHARD_BYTES
    end: tuple[int, int] | None = None

    def shards(self) -> Iterator[Shard]:
        number, pieces, room = 0, list[Piece](), self.shard_bytes
        for piece, size in self.units():
            if pieces and size > room:
                yield Shard(number, tuple(pieces))
                number, pieces, room = number + 1, [], self.shard_bytes
            pieces = joined(pieces, piece)
            room -= size
            if room <= 0:
                yield Shard(number, tuple(pieces))
                number, pieces, room = number + 1, [], self.shard_bytes
        if pieces:
            yield Shard(number, tuple(pieces))

    def units(self) -> Iterator[tuple[Piece, int]]:
        """What is not cut any further, with how many bytes it counts for."""
        for number, one in enumerate(self.inputs):
            stop = None
            if self.end is not None:
                if number > self.end[0]:
                    return
                stop = self.end[1] if number == self.end[0] else None
            if one.parts is not None:
                yield from table_units(one, stop)
            elif one.is_stream or is_compressed(one.name):
                yield Piece(one, 0, stop), one.size * (INFLATED if is_compressed(one.name) else 1)
            else:
                last = one.size if stop is None else stop
                for start in range(0, last, self.shard_bytes):
                    to = min(start + self.shard_bytes, last)
                    yield Piece(one, start, to if stop is not None or to < one.size else None), to - start

    @property
    def count(self) -> int:
        """How many shards there are."""
        return sum(1 for _ in self.shards())

    @property
    def bytes(self) -> int:
        """Of all inputs, as they are stored."""
        return sum(one.size for one in self.inputs)


def table_units(table: Input, stop: int | None) -> Iterator[tuple[Piece, int]]:
    """Of a table: its parts."""
    assert table.parts is not None
    start, rows = 0, max(1, sum(table.parts))
    for count in table.parts:
        to = start + count if stop is None else min(start + count, stop)
        if to > start:
            yield Piece(table, start, to), table.size * (to - start) // rows
        start += count


def joined(pieces: list[Piece], more: Piece) -> list[Piece]:
    """A piece that begins where the last one ends goes on with it."""
    if pieces and pieces[-1].input is more.input and pieces[-1].stop == more.start:
        return [*pieces[:-1], pieces[-1]._replace(stop=more.stop)]
    return [*pieces, more]
