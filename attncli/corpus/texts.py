"""Read the texts of a corpus one by one: lines, paragraphs, JSON objects, rows of tables.

No text is kept. A line without a valid text is an error that gives its number, or is reported and skipped.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, islice
from typing import Any, ClassVar, NamedTuple

from attncli.base.errors import Notice, RequestError
from attncli.base.printable import first_line, printable, quoted, shorten
from attncli.base.untrusted import parse_json
from attncli.corpus.files import JSON, TABLES, TEXTS, BadFile, InputFile, find_inputs, import_arrow, open_input, suffix
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import TextWindow, windows

FIELD = "text"  # the default field or column of the text
LONGEST = 2**26  # bytes of a line or paragraph, all of which is in memory
ROWS = 2**10  # rows of a table in memory at a time


class LinePlace(NamedTuple):
    """The place of a text, for messages: a line or row of a file, from 1, or an index in a list, from 0, with an empty
    `file`."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}".removeprefix(", ")


class Line(NamedTuple):
    """A text of a file, and the place of its first line or row."""

    where: LinePlace
    text: str


# --- lines ----------------------------------------------------------------------------------------------


class RawLine(NamedTuple):
    """A line of a file, without a byte order mark."""

    where: LinePlace
    content: bytes

    def decoded(self) -> str:
        """Return the line as text. Raises ValueError, with the reason, if it is not UTF-8."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 at byte {error.start}") from error

    @property
    def is_blank(self) -> bool:
        return not self.content.decode(errors="replace").strip()


def lines(one: InputFile) -> Iterator[RawLine]:
    """Yield the lines of a file. Raises BadFile if it can't be read, or for a line longer than LONGEST."""
    with open_input(one) as file:
        for number in count(1):
            content = file.readline(LONGEST + 1)
            if not content:
                return
            where = LinePlace(one.display_name, number)
            _check_length(where, len(content))
            yield RawLine(where, content.removeprefix(b"\xef\xbb\xbf") if number == 1 else content)


def paragraphs(one: InputFile) -> Iterator[list[RawLine]]:
    """Yield the lines of each paragraph. Raises BadFile as `lines`, also for a paragraph longer than LONGEST."""
    block, size = list[RawLine](), 0
    for line in lines(one):
        if not line.is_blank:
            block.append(line)
            size += len(line.content)
            _check_length(block[0].where, size)
        elif block:
            yield block
            block, size = [], 0
    if block:
        yield block


def _check_length(where: LinePlace, length: int) -> None:
    if length > LONGEST:
        raise BadFile(f"{where}: longer than {LONGEST >> 20} MB: put one text on each line, or split it")


# --- tables ---------------------------------------------------------------------------------------------


def rows(one: InputFile, field: str) -> Iterator[str | None]:
    """Yield the texts of a table's column, reading some rows at a time.

    Raises RequestError if the table has no such column of texts, and BadFile for a garbled table.
    """
    pyarrow = import_arrow()
    with open_input(one) as file:
        if suffix(one.name) == ".parquet":
            table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)
            check_column(one, table.schema_arrow, field)
            batches = table.iter_batches(ROWS, columns=[field], use_threads=False)
        elif file.read(6) == b"ARROW1":
            table = pyarrow.ipc.open_file(file)
            batches = map(table.get_batch, range(table.num_record_batches))
        else:  # a stream, the format that `datasets` writes
            file.seek(0)
            batches = pyarrow.ipc.open_stream(file)
        for batch in batches:
            check_column(one, batch.schema, field)
            column = batch.column(batch.schema.get_field_index(field))
            for start in range(0, len(column), ROWS):
                some = column.slice(start, ROWS)
                some.validate(full=True)  # before its offsets are trusted
                yield from some.cast(pyarrow.large_string()).to_pylist()


def check_column(one: InputFile, schema: Any, field: str) -> None:
    """Raises RequestError unless exactly one column has that name, and it holds texts."""
    kinds = import_arrow().types
    found = [schema.field(place).type for place in schema.get_all_field_indices(field)]
    inner = [kind.value_type if kinds.is_dictionary(kind) else kind for kind in found]
    if len(inner) != 1 or not (
        kinds.is_string(inner[0]) or kinds.is_large_string(inner[0]) or kinds.is_string_view(inner[0])
    ):
        names = shorten(
            ", ".join(printable(f"{name} ({kind})") for name, kind in zip(schema.names, schema.types, strict=True)), 150
        )
        raise RequestError(f"{one.display_name} has no column {quoted(field)} of texts (string): it has {names}")


# --- which texts are read ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Choosing(ABC):
    """A way of reading texts that can select some of them.

    skip_bad: report a bad text in a Notice, and skip it. limit: the maximum number of texts, after sampling. sample:
    the share of the texts that is read, above 0 and at most 1; None reads all. Whether a text is in the sample depends
    only on its content and its place in its file. kinds: suffixes of the files that are read from a folder.
    """

    kinds: ClassVar[Sequence[str]] = TEXTS
    skip_bad: bool = False
    limit: int | None = None
    sample: float | None = None

    def __post_init__(self) -> None:
        """Raises RequestError for a share out of range."""
        if self.sample is not None and not 0 < self.sample <= 1:
            raise RequestError(f"--sample must be above 0 and at most 1, not {self.sample:g}")

    def takes(self, text: Line) -> bool:
        """Return whether a text is in the sample."""
        if self.sample is None:
            return True
        drawn = blake2b(f"{text.where.number} {text.text}".encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(drawn.digest(), "big") < self.sample * 2**64

    @abstractmethod
    def read(self, one: InputFile) -> Iterator[Any]:
        """Yield the texts of a file that are in the sample, ignoring the limit."""

    def texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Return the texts of files in order, up to the limit.

        The files are found first (`find_inputs`). Raises RequestError as `find_inputs`; then, with file and line, for a
        bad text, and BadFile for a file that can't be read.
        """
        inputs = find_inputs(names, self.kinds)

        def each() -> Iterator[Any]:
            for one in inputs:
                try:
                    yield from self.read(one)
                except BadFile as error:
                    if not self.skip_bad:
                        raise
                    warnings.warn(f"skipped the rest: {error}", Notice, stacklevel=2)

        return islice(each(), self.limit)

    def refuse(self, where: LinePlace, why: str) -> None:
        """Report a line without a valid text. Raises RequestError unless bad lines are skipped."""
        if not self.skip_bad:
            hint = ": --skip-bad skips such texts" if where.file else ""
            raise RequestError(f"{where}: {why}{hint}")
        warnings.warn(f"skipped {where}: {why}", Notice, stacklevel=2)


@dataclass(frozen=True)
class TextFormat(Choosing):
    """The format of texts in their files, and the selection of texts.

    paragraphs: a text ends at an empty line, not at the end of its line. field: a table's column of texts, or the field
    of JSON lines. If it is given, all other files are read as JSON lines. None means "text" in tables and .jsonl.
    """

    paragraphs: bool = False
    field: str | None = None

    def __post_init__(self) -> None:
        """Raises RequestError for options that exclude each other, and as `Choosing`."""
        super().__post_init__()
        if self.paragraphs and self.field is not None:
            raise RequestError("--field reads one text per line, --paragraphs several lines per text: omit one of them")

    def read(self, one: InputFile) -> Iterator[Line]:
        return (line for line in self._lines(one) if line.text and self.takes(line))

    def _lines(self, one: InputFile) -> Iterator[Line]:
        """Yield all texts of a file, except empty ones."""
        table = suffix(one.name) in TABLES
        json = not table and (self.field is not None or suffix(one.name) in JSON)
        if self.paragraphs and (json or table):
            raise RequestError(f"{one.display_name} has one text per line: omit --paragraphs")
        if table:
            for number, text in enumerate(rows(one, self.field or FIELD), 1):
                yield Line(LinePlace(one.display_name, number, "row"), (text or "").strip())
        elif self.paragraphs:
            for block in paragraphs(one):
                if parts := [part for raw in block if (part := self._text_of(raw))]:
                    yield Line(parts[0].where, " ".join(part.text for part in parts))
        else:
            for raw in lines(one):
                if found := self._text_of(raw, json):
                    yield found

    def _text_of(self, raw: RawLine, json: bool = False) -> Line | None:
        """Return the text of a line; None for a bad one that is skipped."""
        try:
            text = raw.decoded().strip()
            return Line(raw.where, _field_of(text, self.field or FIELD) if text and json else text)
        except ValueError as error:
            self.refuse(raw.where, str(error))
            return None

    def windows(self, texts: Iterable[Line], tokenizer: Tokenizer, stride: int | None = None) -> Iterator[TextWindow]:
        """Yield the windows of each text, numbered from 0 (`attncli.text.windows`).

        A skipped bad text yields no windows, or lacks the last ones. Raises RequestError as `texts` and `windows`.
        """
        for number, line in enumerate(texts):
            try:
                yield from windows(number, line.text, tokenizer, stride)
            except Unreadable as error:
                self.refuse(line.where, str(error))


def _field_of(line: str, field: str) -> str:
    """Return the text in a JSON object. Raises ValueError, with the reason, if there is none."""
    try:
        found = parse_json(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({first_line(error)})") from error
    if not isinstance(found, dict) or not isinstance(found.get(field), str):
        raise ValueError(f"not a JSON object with a text in {quoted(field)}")
    return found[field].strip()
