"""A corpus: many texts read one by one from files, cut into windows that fit the model. No text is kept.

What stands where a text should be and is none is refused with its line's number, or told of and skipped.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line, quoted
from attncli.base.untrusted import parse_json
from attncli.text.samples import where_to_find
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

STDIN = "-"
LONGEST = 2**26  # bytes of a line, and of a paragraph: all of it is in memory at once
TOO_LONG = f"longer than {LONGEST >> 20} MB: put a text on each line, or cut it"
CHUNK = 2**20  # bytes of a line that is too long, which are passed over together


class Line(NamedTuple):
    """A text as it stands in a file: the number of its (first) line, counted from 1."""

    file: str
    number: int
    text: str

    @property
    def place(self) -> str:
        return f"{shown(self.file)}, line {self.number}"


@dataclass(frozen=True)
class Reading:
    """How texts stand in their files.

    paragraphs: a text goes on until an empty line, instead of to the end of its line.
    field: each line is a JSON object, and this field of it is the text.
    skip_bad: a line that holds no text is told of in a Notice and passed over.
    limit: how many texts to read at the most.
    """

    paragraphs: bool = False
    field: str | None = None
    skip_bad: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raises RequestError when texts can't be both."""
        if self.paragraphs and self.field is not None:
            raise RequestError("--jsonl has one text a line, --paragraphs several lines a text: which one is meant?")

    def texts(self, files: Sequence[str]) -> Iterator[Line]:
        """The texts of all files, in their order; "-" is stdin. Empty lines are no texts.

        Raises RequestError, with file and line, for a file that can't be read, a line that is not UTF-8 or longer than
        LONGEST, and one that is no JSON object with that field.
        """
        every = (self.joined(self.lines(file)) if self.paragraphs else self.lines(file) for file in files)
        yield from islice(chain.from_iterable(every), self.limit)

    def lines(self, file: str) -> Iterator[Line]:
        """Line by line; an empty one is there as "" only where it parts paragraphs."""
        for number, raw in enumerate(raw_lines(file), 1):
            if raw is None:
                self.bad(Line(file, number, ""), TOO_LONG)
                continue
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if text and self.field is not None:
                    text = field_of(text, self.field)
            except UnicodeDecodeError as error:
                self.bad(Line(file, number, ""), f"not UTF-8 at byte {error.start}")
                continue
            except ValueError as error:
                self.bad(Line(file, number, ""), str(error))
                continue
            if text or self.paragraphs:
                yield Line(file, number, text)

    def joined(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Lines up to an empty one, or to the end of the file, put together with spaces."""
        parts: list[Line] = []
        room = LONGEST
        for line in chain(lines, [Line("", 0, "")]):
            room -= len(line.text)
            if not line.text:
                if parts:
                    yield parts[0]._replace(text=" ".join(part.text for part in parts))
                parts, room = [], LONGEST
            elif room >= 0:
                parts.append(line)
            elif parts:
                self.bad(parts[0], TOO_LONG)  # and what there is more of it is passed over
                parts = []

    def windows(
        self,
        files: Sequence[str],
        tokenizer: Tokenizer,
        stride: int | None = None,
        numbered: Callable[[Iterable[Line]], Iterable[tuple[int, Line]]] = enumerate,
    ) -> Iterator[Iterator[Window]]:
        """The windows of each text; see `windows` for how it is cut.

        numbered: gives the texts that are wanted, with their numbers in the corpus.


        Of a text that can't be cut there are none; or not the last one, where that shows late.
        Raises RequestError as `texts` and `windows` do.
        """
        for number, line in numbered(self.texts(files)):
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
            raise RequestError(f"{line.place}: {why}: --skip-bad passes such lines over")
        warnings.warn(f"skipped {line.place}: {why}", Notice, stacklevel=2)


def raw_lines(file: str) -> Iterator[bytes | None]:
    """The lines of a file, which is never there as a whole; None in the place of one longer than LONGEST.

    Raises RequestError when it can't be read.
    """
    try:
        with nullcontext(sys.stdin.buffer) if file == STDIN else open_file(file) as opened:
            while line := opened.readline(LONGEST + 1):
                if len(line) <= LONGEST:
                    yield line
                else:
                    yield None
                    while line and not line.endswith(b"\n"):
                        line = opened.readline(CHUNK)
    except (OSError, ValueError) as error:
        why = f"{getattr(error, 'strerror', None) or error}{where_to_find(file)}"
        raise RequestError(f"can't read {shown(file)}: {why}") from error


def open_file(file: str) -> BinaryIO:
    return Path(file).open("rb")


def shown(file: str) -> str:
    return "stdin" if file == STDIN else file


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
