"""The texts of a corpus, read one by one and cut into windows that fit the model. No text is kept.

A line that should hold a text and does not is refused with its number, or reported and skipped.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, islice, takewhile
from typing import Any, BinaryIO, NamedTuple

from attncli.base.errors import Notice, RequestError, no_notices
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import parse_json
from attncli.corpus.files import CHUNK, BadFile, Input, Piece, is_compressed, is_json, is_table, open_input
from attncli.corpus.tables import Bad, rows
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

FIELD = "text"  # the field or column that holds the text, unless another is named
LONGEST = 2**26  # bytes of a line, or of a block of lines: all of it is in memory
TOO_LONG = f"longer than {LONGEST >> 20} MB: put a text on each line, or cut it"
REMEMBERED = 64  # files of which some line number is kept

# --- lines, and blocks of lines between empty ones ------------------------------------------------------


class _Spot(NamedTuple):
    """A line or a row of a file, as messages name it.

    origin: the place where counting began; nth: how many lines (or rows) from there, from 1.
    """

    input: Input
    origin: int
    nth: int
    unit: str = "line"

    @property
    def number(self) -> int:
        """The number in the file, from 1. Reads the file up to its piece, once."""
        return _lines_before(self.input, self.origin) + self.nth

    def __str__(self) -> str:
        return f"{self.input.display_name}, {self.unit} {self.number}"


class RawLine(NamedTuple):
    """A line as it stands in a file; at: its first byte; content: None if it is longer than LONGEST."""

    where: _Spot
    at: int
    content: bytes | None

    def decoded(self) -> str:
        """Return the line without a byte order mark. Raises ValueError with the reason if it is no text."""
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
    """Yield the lines that begin in a piece. Raises BadFile if it can't be read."""
    return takewhile(lambda line: piece.holds(line.at), _lines_from(piece))


def lines_in_blocks(piece: Piece) -> Iterator[tuple[int, RawLine]]:
    """Yield the lines of all blocks of a piece, each with the place of its block. Empty lines separate blocks.

    The place of a block is that of the last empty line before it, or 0. So a block belongs to one piece, however long
    it is, and reading a piece never looks back.

    Raises BadFile as `lines`.
    """
    place = 0 if piece.start == 0 else None
    for line in _lines_from(piece):
        blank = line.is_blank
        if (blank or place is None) and not piece.holds(line.at):
            return
        if blank:
            place = line.at
        if place is not None:
            yield place, line


def _lines_from(piece: Piece) -> Iterator[RawLine]:
    """Yield the lines from the start of a piece to the end of the file."""
    with open_input(piece.input) as file:
        at = origin = _find_line(file, piece)
        for nth in count(1):
            content = file.readline(LONGEST + 1)
            if not content:
                return
            where = _Spot(piece.input, origin, nth)
            if len(content) <= LONGEST:
                yield RawLine(where, at, content)
                at += len(content)
            else:
                yield RawLine(where, at, None)
                at += len(content) + _skip_line(file, content)


def _skip_line(file: BinaryIO, begun: bytes = b"") -> int:
    """Skip the rest of a line whose beginning was read. Returns how many bytes that is."""
    length = 0
    while not begun.endswith(b"\n") and (begun := file.readline(CHUNK)):
        length += len(begun)
    return length


def _find_line(file: BinaryIO, piece: Piece) -> int:
    """Go to the first line that begins at the start of a piece or later. Returns its place."""
    if piece.start == 0:
        return 0
    before = piece.start - 1  # a line begins at the start if the byte before ends one
    if is_compressed(piece.input.name):
        left = before
        while left and (skipped := len(file.read(min(CHUNK, left)))):
            left -= skipped
    else:
        file.seek(before)
    return before + _skip_line(file)


_known_lines: dict[Input, tuple[int, int]] = {}  # a place in a file, and how many lines end before it


def _lines_before(one: Input, place: int) -> int:
    """Return the number of lines of a file that end before a place. Counts from the place of the last call."""
    if place == 0:
        return 0
    start, ended = _known_lines.get(one, (0, 0))
    if start == place:
        return ended
    if start > place or is_compressed(one.name):
        start, ended = 0, 0
    with open_input(one) as file:
        left = place - start
        if start:
            file.seek(start)
        while left and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            ended += chunk.count(b"\n")
    if len(_known_lines) >= REMEMBERED:
        _known_lines.clear()
    _known_lines[one] = place, ended
    return ended


# --- which texts are taken ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Choosing(ABC):
    """A way of reading texts that takes some of them.

    skip_bad: report a bad text in a Notice, and skip it. limit: how many of the texts that are taken are read, at most.
    sample: the share of the texts that is taken, above 0 and up to 1; None takes all. Whether a text is taken depends
    only on the seed, its place in its file, and its content.
    """

    skip_bad: bool = False
    limit: int | None = None
    sample: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises RequestError for a share out of range."""
        if self.sample is not None and not 0 < self.sample <= 1:
            raise RequestError(f"--sample {self.sample:g}: a share of the texts, above 0 and up to 1")

    @property
    def option_values(self) -> dict[str, Any]:
        """The options that distinguish it from other ways of reading.

        skip_bad is not one of them: it can resume a run that a bad line stopped.
        """
        return {"--limit": self.limit, "--sample": self.sample, "--seed": None if self.sample is None else self.seed}

    def check(self, inputs: Sequence[Input]) -> None:
        """Raises RequestError for an option that has no effect on any of these files."""
        return

    def takes(self, place: int, content: str) -> bool:
        """Return whether the text at a place is in the sample."""
        if self.sample is None:
            return True
        drawn = blake2b(f"{self.seed} {place} ".encode() + content.encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(drawn.digest(), "big") < self.sample * 2**64

    @abstractmethod
    def places(self, piece: Piece) -> Iterator[int]:
        """Yield the place of each text of a piece that is taken, whatever the limit."""


def end_of(reading: Choosing, inputs: Sequence[Input]) -> tuple[int, int] | None:
    """Return where a plan has to end in order to have the first `limit` texts: a file's number, and a place in it.

    None if these files have no more texts, or are one stream, which has one piece and can't be read twice.

    Raises RequestError as reading does, and for a stream among other files.
    """
    if reading.limit is None or (len(inputs) == 1 and inputs[0].is_stream):
        return None
    left = reading.limit
    with no_notices():  # the user hears of bad texts when they are read
        for number, one in enumerate(inputs):
            if one.is_stream:
                raise RequestError(f"--limit reads files twice, and {one.display_name} can be read once: name it alone")
            count = 0
            try:
                for count, place in enumerate(islice(reading.places(Piece(one)), left), 1):
                    if count == left:
                        return number, place + 1
            except BadFile:
                if not reading.skip_bad:
                    raise
                count = 0
            left -= count
    return None


# --- texts ----------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A text of a file: its (first) line or its row, the place by which it belongs to a `Piece`, and its content."""

    where: _Spot
    at: int
    text: str


@dataclass(frozen=True)
class TextFormat(Choosing):
    """The form of texts in their files, and the choice among them.

    paragraphs: a text goes on until an empty line, not to the end of its line. field: the field of a JSON object, or
    the column of a table, that is the text; None is "text". json: each line is a JSON object, whatever its file is
    called.
    """

    paragraphs: bool = False
    field: str | None = None
    json: bool = False

    def __post_init__(self) -> None:
        """Raises RequestError for options that exclude each other, and as `Choosing`."""
        super().__post_init__()
        if self.paragraphs and (self.json or self.field is not None):
            raise RequestError("--jsonl has one text a line, --paragraphs several lines a text: which one is meant?")

    @property
    def option_values(self) -> dict[str, Any]:
        own = {"--paragraphs": self.paragraphs, "--jsonl": self.json, "--field": self.field}
        return {**own, **super().option_values}

    def check(self, inputs: Sequence[Input]) -> None:
        if self.field is not None and not (self.json or any(is_json(one.name) or is_table(one.name) for one in inputs)):
            raise RequestError("--field is of .jsonl, .parquet, .arrow, and here are lines of text: leave it out")

    def texts(self, pieces: Iterable[Piece]) -> Iterator[Line]:
        """Yield the texts of all pieces in order. Empty lines are no texts.

        Raises RequestError, with file and line, for a line that is not UTF-8 or longer than LONGEST, for one that is
        no JSON object with the field, and for a table without the column; BadFile for a file that can't be read.
        """
        return islice((line for piece in pieces for line in self.chosen_texts(piece)), self.limit)

    def places(self, piece: Piece) -> Iterator[int]:
        return (line.at for line in self.chosen_texts(piece))

    def chosen_texts(self, piece: Piece) -> Iterator[Line]:
        """Yield the texts of a piece that are taken, whatever the limit."""
        return (line for line in self._all_texts(piece) if line.text and self.takes(line.at, line.text))

    def _all_texts(self, piece: Piece) -> Iterator[Line]:
        name, json = piece.input.name, self.json or is_json(piece.input.name)
        if self.paragraphs and (json or is_table(name)):
            raise RequestError(
                f"{piece.input.display_name} has one text a {'line' if json else 'row'}: leave out --paragraphs"
            )
        if is_table(name):
            return self._rows(piece)
        if self.paragraphs:
            return self._paragraphs(piece)
        return (text for line in lines(piece) if (text := self._text_of(line, line.at, json)))

    def _rows(self, piece: Piece) -> Iterator[Line]:
        for row, text in rows(piece, self.field or FIELD):
            line = Line(_Spot(piece.input, 0, row + 1, "row"), row, "")
            if isinstance(text, Bad):
                self.refuse(line, text.why)
            elif len(text) > LONGEST:
                self.refuse(line, TOO_LONG)
            else:
                yield line._replace(text=text.strip())

    def _paragraphs(self, piece: Piece) -> Iterator[Line]:
        """Yield the lines up to an empty one or the end of the file as one text, joined by spaces."""
        parts: list[Line] = []
        room, last = LONGEST, -1
        for place, raw in lines_in_blocks(piece):
            if place != last:
                yield from _joined(parts)
                parts, room, last = [], LONGEST, place
            line = self._text_of(raw, place)
            if line is None:
                continue
            room -= len(line.text)
            if room >= 0:
                parts += [line] if line.text else []
            elif parts:
                self.refuse(parts[0], TOO_LONG)  # and the rest of it is skipped
                parts = []
        yield from _joined(parts)

    def _text_of(self, raw: RawLine, at: int, json: bool = False) -> Line | None:
        """Return the text of a line; None for a bad one that is skipped."""
        line = Line(raw.where, at, "")
        try:
            text = raw.decoded().strip()
            return line._replace(text=_field_of(text, self.field or FIELD) if text and json else text)
        except ValueError as error:
            self.refuse(line, str(error))
            return None

    def windows(
        self, pieces: Iterable[Piece], tokenizer: Tokenizer, stride: int | None = None
    ) -> Iterator[Iterator[Window]]:
        """Yield the windows of each text, numbered from 0 (`attncli.text.windows`).

        A bad text that is skipped has none, or lacks the last ones. Raises RequestError as `texts` and `windows`.
        """
        for number, line in enumerate(self.texts(pieces)):
            yield self._windows(number, line, tokenizer, stride)

    def _windows(self, number: int, line: Line, tokenizer: Tokenizer, stride: int | None) -> Iterator[Window]:
        try:
            yield from windows(number, line.text, tokenizer, stride)
        except Unreadable as error:
            self.refuse(line, str(error))

    def refuse(self, line: Line, why: str) -> None:
        """Report a line that holds no text. Raises RequestError unless bad lines are skipped."""
        if not self.skip_bad:
            raise RequestError(f"{line.where}: {why}: --skip-bad passes such {line.where.unit}s over")
        warnings.warn(f"skipped {line.where}: {why}", Notice, stacklevel=2)


def _joined(parts: list[Line]) -> Iterator[Line]:
    if parts:
        yield parts[0]._replace(text=" ".join(part.text for part in parts))


def _field_of(line: str, field: str) -> str:
    """Return the text in a JSON object. Raises ValueError with the reason if there is none."""
    try:
        found = parse_json(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({first_line(error)})") from error
    if not isinstance(found, dict) or field not in found:
        raise ValueError(f"no JSON object with a field {quoted(field)}")
    if not isinstance(found[field], str):
        raise ValueError(f"its field {quoted(field)} is no text")
    return found[field].strip()
