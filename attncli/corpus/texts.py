"""The texts of a corpus, read one by one: lines, paragraphs, JSON objects, rows of tables. No text is kept.

A line that should hold a text and does not is refused with its number, or reported and skipped.
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
from attncli.corpus.files import (
    CHUNK,
    PARQUET,
    TEXTS,
    BadFile,
    FileKinds,
    InputFile,
    find_inputs,
    import_arrow,
    is_json,
    is_table,
    open_input,
)
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Unreadable
from attncli.text.windows import Window, windows

FIELD = "text"  # the field or column that holds the text, unless another is named
LONGEST = 2**26  # bytes of a line, or of a paragraph: all of it is in memory
TOO_LONG = f"longer than {LONGEST >> 20} MB: put a text on each line, or cut it"
ROWS = 2**10  # rows of a table that are in memory at a time


class LinePlace(NamedTuple):
    """A line or a row of a file, from 1, as messages name it; or a text of a list, from 0, whose `file` is empty."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}".removeprefix(", ")


class Line(NamedTuple):
    """A text of a file, and the place of its first line or its row."""

    where: LinePlace
    text: str


# --- lines ----------------------------------------------------------------------------------------------


class RawLine(NamedTuple):
    """A line as it stands in a file; at: its first byte; content: None if it is longer than LONGEST."""

    where: LinePlace
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
        encoding = "utf-8-sig" if self.at == 0 else "utf-8"
        return self.content is not None and not self.content.decode(encoding, "replace").strip()


def lines(one: InputFile) -> Iterator[RawLine]:
    """Yield the lines of a file. Raises BadFile if it can't be read."""
    with open_input(one) as file:
        at = 0
        for number in count(1):
            content = file.readline(LONGEST + 1)
            if not content:
                return
            length = len(content)
            yield RawLine(LinePlace(one.display_name, number), at, content if length <= LONGEST else None)
            while length > LONGEST and not content.endswith(b"\n") and (content := file.readline(CHUNK)):
                at += len(content)
            at += length


def paragraphs(one: InputFile) -> Iterator[tuple[int, list[RawLine]]]:
    """Yield the lines between empty ones, with the first byte of the empty line before them, or 0.

    One that is longer than LONGEST ends with a line without content. Raises BadFile as `lines`.
    """
    place, block, room, too_long = 0, list[RawLine](), LONGEST, False
    for line in lines(one):
        if line.is_blank:
            if block:
                yield place, block
            place, block, room, too_long = line.at, [], LONGEST, False
        elif not too_long:
            room -= len(line.content or b"")
            too_long = line.content is None or room < 0
            block.append(line._replace(content=None) if too_long else line)
            if too_long:
                yield place, block
                block = []
    if block:
        yield place, block


# --- tables ---------------------------------------------------------------------------------------------


def rows(one: InputFile, field: str) -> Iterator[str | None]:
    """Yield the texts of a column of a table, some rows at a time.

    Raises RequestError if the table has no such column, or if the column holds no texts; BadFile for a garbled table.
    """
    pyarrow = import_arrow()
    with open_input(one) as file:
        if one.path.lower().endswith(PARQUET):
            table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=CHUNK)
            check_column(one, table.schema_arrow, field)
            batches = table.iter_batches(ROWS, columns=[field], use_threads=False)
        elif file.read(6) == b"ARROW1":
            table = pyarrow.ipc.open_file(file)
            batches = map(table.get_batch, range(table.num_record_batches))
        else:  # a stream, as `datasets` writes it
            file.seek(0)
            batches = pyarrow.ipc.open_stream(file)
        for batch in batches:
            check_column(one, batch.schema, field)
            column = batch.column(batch.schema.get_field_index(field))
            for start in range(0, len(column), ROWS):
                some = column.slice(start, ROWS)
                some.validate(full=True)  # before it is followed into memory
                yield from some.cast(pyarrow.large_string()).to_pylist()


def check_column(one: InputFile, schema: Any, field: str) -> None:
    """Raises RequestError unless there is exactly one column of that name, and it holds texts."""
    kinds = import_arrow().types
    names = shorten(", ".join(map(printable, schema.names)), 100)
    if (count := schema.names.count(field)) != 1:
        there = "no column" if not count else f"{count} columns"
        raise RequestError(f"{one.display_name} has {there} {quoted(field)}: it has {names}")
    kind = schema.field(field).type
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    if not (kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_string_view(inner)):
        raise RequestError(
            f"{one.display_name}: its column {quoted(field)} is of {shorten(str(kind), 30)}, not of texts: it has "
            f"{names}"
        )


# --- which texts are taken ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Choosing(ABC):
    """A way of reading texts that takes some of them.

    skip_bad: report a bad text in a Notice, and skip it. limit: how many of the texts that are taken are read, at most.
    sample: the share of the texts that is taken, above 0 and up to 1; None takes all. Whether a text is taken depends
    only on the seed, its place in its file, and its content. kinds: of the files that a folder stands for.
    """

    kinds: ClassVar[FileKinds] = TEXTS
    skip_bad: bool = False
    limit: int | None = None
    sample: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises RequestError for a share out of range."""
        if self.sample is not None and not 0 < self.sample <= 1:
            raise RequestError(f"--sample {self.sample:g}: a share of the texts, above 0 and up to 1")

    def takes(self, place: int, content: str) -> bool:
        """Return whether the text at a place is in the sample."""
        if self.sample is None:
            return True
        drawn = blake2b(f"{self.seed} {place} ".encode() + content.encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(drawn.digest(), "big") < self.sample * 2**64

    @abstractmethod
    def read(self, one: InputFile) -> Iterator[Any]:
        """Yield the texts of a file that are taken, whatever the limit."""

    def inputs(self, names: Sequence[str]) -> list[InputFile]:
        """Return the files. Raises RequestError as `find_inputs`, and for options that have no effect on them."""
        return find_inputs(names, self.kinds)

    def texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Return the texts of files in order, up to the limit. The files are found first (`inputs`).

        Raises RequestError as `inputs`; then, with file and line, for a text that is none, and BadFile for a file that
        can't be read.
        """
        inputs = self.inputs(names)

        def each() -> Iterator[Any]:
            for one in inputs:
                try:
                    yield from self.read(one)
                except BadFile as error:
                    if not self.skip_bad:
                        raise
                    warnings.warn(f"skipped the rest: {error}", Notice, stacklevel=2)

        return islice(each(), self.limit)


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

    def inputs(self, names: Sequence[str]) -> list[InputFile]:
        found = super().inputs(names)
        if self.field is not None and not (self.json or any(is_json(one.name) or is_table(one.name) for one in found)):
            raise RequestError("--field is of .jsonl, .parquet, .arrow, and here are lines of text: leave it out")
        return found

    def read(self, one: InputFile) -> Iterator[Line]:
        return (line for at, line in self._lines(one) if line.text and self.takes(at, line.text))

    def _lines(self, one: InputFile) -> Iterator[tuple[int, Line]]:
        """Yield all texts of a file, with their places: bytes, or rows. Empty lines are no texts."""
        json, table = self.json or is_json(one.name), is_table(one.name)
        if self.paragraphs and (json or table):
            raise RequestError(
                f"{one.display_name} has one text a {'row' if table else 'line'}: leave out --paragraphs"
            )
        if table:
            for at, text in enumerate(rows(one, self.field or FIELD)):
                line = Line(LinePlace(one.display_name, at + 1, "row"), (text or "").strip())
                if text is None:
                    self.refuse(line, "there is no text (null)")
                yield at, line
        elif self.paragraphs:
            for at, block in paragraphs(one):
                if any(raw.content is None for raw in block):
                    self.refuse(Line(block[0].where, ""), TOO_LONG)
                    continue
                parts = [part for raw in block if (part := self._text_of(raw))]
                if parts:
                    yield at, Line(parts[0].where, " ".join(part.text for part in parts))
        else:
            for raw in lines(one):
                if found := self._text_of(raw, json):
                    yield raw.at, found

    def _text_of(self, raw: RawLine, json: bool = False) -> Line | None:
        """Return the text of a line; None for a bad one that is skipped, and for an empty one."""
        try:
            text = raw.decoded().strip()
            text = _field_of(text, self.field or FIELD) if text and json else text
            return Line(raw.where, text) if text else None
        except ValueError as error:
            self.refuse(Line(raw.where, ""), str(error))
            return None

    def windows(self, texts: Iterable[Line], tokenizer: Tokenizer, stride: int | None = None) -> Iterator[Window]:
        """Yield the windows of each text, numbered from 0 (`attncli.text.windows`).

        A bad text that is skipped has none, or lacks the last ones. Raises RequestError as `texts` and `windows`.
        """
        for number, line in enumerate(texts):
            try:
                yield from windows(number, line.text, tokenizer, stride)
            except Unreadable as error:
                self.refuse(line, str(error))

    def refuse(self, line: Line, why: str) -> None:
        """Report a line that holds no text. Raises RequestError unless bad lines are skipped."""
        if not self.skip_bad:
            hint = f": --skip-bad passes such {line.where.unit}s over" if line.where.file else ""
            raise RequestError(f"{line.where}: {why}{hint}")
        warnings.warn(f"skipped {line.where}: {why}", Notice, stacklevel=2)


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
