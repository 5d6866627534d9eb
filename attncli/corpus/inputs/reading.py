"""A corpus: many texts read one by one from files, cut into windows that fit the model. No text is kept.

What stands where a text should be and is none is refused with its line's number, or told of and skipped.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import parse_json
from attncli.corpus.inputs.choosing import Choosing
from attncli.corpus.inputs.files import Input, Piece
from attncli.corpus.inputs.kinds import is_json, is_table
from attncli.corpus.inputs.lines import LONGEST, TOO_LONG, RawLine, Where, lines, lines_in_blocks
from attncli.corpus.inputs.tables import Bad, rows
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

FIELD = "text"  # where JSON lines and tables have their texts if nothing else is said


class Line(NamedTuple):
    """A text as it stands in a file.

    where: its (first) line, or its row; at: the place in its file by which it is of one piece (`Piece`).
    """

    where: Where
    at: int
    text: str

    @property
    def file(self) -> str:
        return self.where.input.name

    @property
    def number(self) -> int:
        """Of its (first) line, or its row, from 1."""
        return self.where.number

    @property
    def place(self) -> str:
        """As messages say it."""
        return str(self.where)


@dataclass(frozen=True)
class Reading(Choosing):
    """How texts stand in their files, and which of them are taken (`Choosing`).

    paragraphs: a text goes on until an empty line, instead of to the end of its line.
    field: of a line that is a JSON object, and of a row, what is the text; None is "text".
    json: each line is a JSON object, whatever its file is called.
    """

    paragraphs: bool = False
    field: str | None = None
    json: bool = False

    def __post_init__(self) -> None:
        """Raises RequestError when texts can't be both, and as `Choosing` does."""
        super().__post_init__()
        if self.paragraphs and (self.json or self.field is not None):
            raise RequestError("--jsonl has one text a line, --paragraphs several lines a text: which one is meant?")

    @property
    def asked(self) -> dict[str, Any]:
        own = {"--paragraphs": self.paragraphs, "--jsonl": self.json, "--field": self.field}
        return {**own, **super().asked}

    def check(self, inputs: Sequence[Input]) -> None:
        if self.field is not None and not (self.json or any(is_json(one.name) or is_table(one.name) for one in inputs)):
            raise RequestError("--field is of .jsonl, .parquet, .arrow, and here are lines of text: leave it out")

    def texts(self, pieces: Iterable[Piece]) -> Iterator[Line]:
        """The texts of all pieces, in their order. Empty lines are no texts.

        Raises RequestError, with file and line, for a line that is not UTF-8 or longer than LONGEST, one that is no
        JSON object with that field, and a table without such a column of texts; BadFile for a file that can't be read.
        """
        return self.first(line for piece in pieces for line in self.taken(piece))

    def places(self, piece: Piece) -> Iterator[int]:
        return (line.at for line in self.taken(piece))

    def taken(self, piece: Piece) -> Iterator[Line]:
        """The texts of a piece that are taken, whatever the limit."""
        return (line for line in self.found(piece) if line.text and self.takes(line.at, line.text))

    def found(self, piece: Piece) -> Iterator[Line]:
        """All texts of a piece."""
        name, json = piece.input.name, self.json or is_json(piece.input.name)
        if self.paragraphs and (json or is_table(name)):
            raise RequestError(
                f"{piece.input.shown} has one text a {'line' if json else 'row'}: leave out --paragraphs"
            )
        if is_table(name):
            return self.rows(piece)
        if self.paragraphs:
            return self.joined(piece)
        return (text for line in lines(piece) if (text := self.text_of(line, line.at, json)))

    def rows(self, piece: Piece) -> Iterator[Line]:
        """Of a table: each row's."""
        for row, text in rows(piece, self.field or FIELD):
            line = Line(Where(piece.input, 0, row + 1, "row"), row, "")
            if isinstance(text, Bad):
                self.bad(line, text.why)
            elif len(text) > LONGEST:
                self.bad(line, TOO_LONG)
            else:
                yield line._replace(text=text.strip())

    def joined(self, piece: Piece) -> Iterator[Line]:
        """Lines up to an empty one, or to the end of the file, put together with spaces."""
        parts: list[Line] = []
        room, last = LONGEST, -1
        for place, raw in lines_in_blocks(piece):
            if place != last:
                yield from together(parts)
                parts, room, last = [], LONGEST, place
            line = self.text_of(raw, place)
            if line is None:
                continue
            room -= len(line.text)
            if room >= 0:
                parts += [line] if line.text else []
            elif parts:
                self.bad(parts[0], TOO_LONG)  # and what there is more of it is passed over
                parts = []
        yield from together(parts)

    def text_of(self, raw: RawLine, at: int, json: bool = False) -> Line | None:
        """A line's text; None, after it was told of, where it is none."""
        line = Line(raw.where, at, "")
        try:
            text = raw.decoded().strip()
            return line._replace(text=field_of(text, self.field or FIELD) if text and json else text)
        except ValueError as error:
            self.bad(line, str(error))
            return None

    def windows(
        self, pieces: Iterable[Piece], tokenizer: Tokenizer, stride: int | None = None
    ) -> Iterator[Iterator[Window]]:
        """The windows of each text; see `windows` for how it is cut. Texts are numbered from 0.

        Of a text that can't be cut there are none; or not the last one, where that shows late.
        Raises RequestError as `texts` and `windows` do.
        """
        for number, line in enumerate(self.texts(pieces)):
            yield self.cut(number, line, tokenizer, stride)

    def cut(self, number: int, line: Line, tokenizer: Tokenizer, stride: int | None) -> Iterator[Window]:
        """The windows of one text."""
        try:
            yield from windows(number, line.text, tokenizer, stride)
        except Unreadable as error:
            self.bad(line, str(error))

    def bad(self, line: Line, why: str) -> None:
        """Raises RequestError for a line that holds no text, or tells of it."""
        if not self.skip_bad:
            raise RequestError(f"{line.place}: {why}: --skip-bad passes such {line.where.unit}s over")
        warnings.warn(f"skipped {line.place}: {why}", Notice, stacklevel=2)


def together(parts: list[Line]) -> Iterator[Line]:
    """The lines of a paragraph as one text, if there are any."""
    if parts:
        yield parts[0]._replace(text=" ".join(part.text for part in parts))


def field_of(line: str, field: str) -> str:
    """The text in a JSON object. Raises ValueError, with what is wrong, where there is none."""
    try:
        found = parse_json(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({first_line(error)})") from error
    if not isinstance(found, dict) or field not in found:
        raise ValueError(f"no JSON object with a field {quoted(field)}")
    if not isinstance(found[field], str):
        raise ValueError(f"its field {quoted(field)} is no text")
    return found[field].strip()
