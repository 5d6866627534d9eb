"""The lines of a piece of a file, and the blocks of lines between empty ones; a file is never there as a whole."""

from collections.abc import Iterator
from itertools import count, takewhile
from typing import BinaryIO, NamedTuple

from attncli.corpus.inputs.files import Input, Piece
from attncli.corpus.inputs.kinds import is_compressed
from attncli.corpus.inputs.opening import opened

LONGEST = 2**26  # bytes of a line, and of a block of them: all of it is in memory at once
TOO_LONG = f"longer than {LONGEST >> 20} MB: put a text on each line, or cut it"
CHUNK = 2**20  # bytes that are passed over together
REMEMBERED = 64  # files of which it is known how many lines come before some place


class Where(NamedTuple):
    """Where something stands in a file, as messages say it.

    origin: the place of the line that counting began with; nth: how many lines (or rows) from there, from 1.
    """

    input: Input
    origin: int
    nth: int
    unit: str = "line"

    @property
    def number(self) -> int:
        """From 1. Reads what comes before its piece, once."""
        return lines_before(self.input, self.origin) + self.nth

    def __str__(self) -> str:
        return f"{self.input.shown}, {self.unit} {self.number}"


class RawLine(NamedTuple):
    """A line as it stands in a file; at: its first byte; content: None where it is longer than LONGEST."""

    where: Where
    at: int
    content: bytes | None

    def decoded(self) -> str:
        """It without a byte order mark at the head of its file. Raises ValueError, with what is wrong, for no text."""
        if self.content is None:
            raise ValueError(TOO_LONG)
        try:
            return self.content.decode("utf-8-sig" if self.at == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 at byte {error.start}") from error

    @property
    def is_blank(self) -> bool:
        try:
            return not self.decoded().strip()
        except ValueError:
            return False


def lines(piece: Piece) -> Iterator[RawLine]:
    """The lines that begin in a piece. Raises BadFile where it can't be read."""
    return takewhile(lambda line: piece.holds(line.at), lines_from(piece))


def lines_in_blocks(piece: Piece) -> Iterator[tuple[int, RawLine]]:
    """The lines of all blocks of a piece, each with the place of its block; empty ones stand between blocks.

    A block's place is that of the last empty line before it, and 0 where there is none: so it is of one piece only,
    however long it is, and a piece needs to look at nothing that comes before it.

    Raises BadFile as `lines`.
    """
    place = 0 if piece.start == 0 else None
    for line in lines_from(piece):
        blank = line.is_blank
        if (blank or place is None) and not piece.holds(line.at):
            return
        if blank:
            place = line.at
        if place is not None:
            yield place, line


def lines_from(piece: Piece) -> Iterator[RawLine]:
    """The lines that begin where a piece does, or later: to the end of the file."""
    with opened(piece.input) as file:
        at = origin = find_line(file, piece)
        for nth in count(1):
            content = file.readline(LONGEST + 1)
            if not content:
                return
            where = Where(piece.input, origin, nth)
            if len(content) <= LONGEST:
                yield RawLine(where, at, content)
                at += len(content)
            else:
                yield RawLine(where, at, None)
                at += len(content) + rest_of_line(file, content)


def rest_of_line(file: BinaryIO, begun: bytes = b"") -> int:
    """Pass over what there is of a line, whose beginning was read. Returns how many bytes that is."""
    length = 0
    while not begun.endswith(b"\n") and (begun := file.readline(CHUNK)):
        length += len(begun)
    return length


def find_line(file: BinaryIO, piece: Piece) -> int:
    """Go to the first line that begins where a piece does, or later. Returns its place."""
    if piece.start == 0:
        return 0
    before = piece.start - 1  # a line begins at the start where this is the end of one
    if is_compressed(piece.input.name):
        left = before
        while left and (skipped := len(file.read(min(CHUNK, left)))):
            left -= skipped
    else:
        file.seek(before)
    return before + rest_of_line(file)


# --- their numbers ----------------------------------------------------------------------------------------

known: dict[Input, tuple[int, int]] = {}  # a place in a file, and how many lines end before it


def lines_before(one: Input, place: int) -> int:
    """How many lines of a file end before a place. Goes on from where it was last asked for."""
    if place == 0:
        return 0
    start, ended = known.get(one, (0, 0))
    if start == place:
        return ended
    if start > place or is_compressed(one.name):
        start, ended = 0, 0
    with opened(one) as file:
        left = place - start
        if start:
            file.seek(start)
        while left and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            ended += chunk.count(b"\n")
    if len(known) >= REMEMBERED:
        known.clear()
    known[one] = place, ended
    return ended
