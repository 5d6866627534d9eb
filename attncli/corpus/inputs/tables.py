"""Texts in tables: a column of a .parquet file, or of an .arrow file as `datasets` writes it. pyarrow reads them.

Of a table only what is asked for is in memory: so many rows of one column.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import printable, quoted, shorten
from attncli.corpus.inputs.files import Input, Piece
from attncli.corpus.inputs.kinds import PARQUET
from attncli.corpus.inputs.messages import ROWS, Spliced, messages
from attncli.corpus.inputs.opening import opened

if TYPE_CHECKING:
    import pyarrow

BATCH = 2**10  # rows that are in memory at once
TOGETHER = 2**16  # rows: small batches of an .arrow file are put together up to so many
FOOTER = 2**16  # bytes that a store is asked for at once where only heads and footers are read
BUFFER = 2**20  # bytes of a column of .parquet that are read at once


class Bad(NamedTuple):
    """What stands in a row instead of a text."""

    why: str


def arrow() -> Any:
    """pyarrow. Raises RequestError where it is not installed."""
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise RequestError(f"reading .parquet and .arrow needs pyarrow: {install_hint('corpora')}") from error
    return pyarrow


def is_parquet(table: Input) -> bool:
    return PurePosixPath(table.name).suffix.lower() in PARQUET


def parts_of(table: Input) -> tuple[int, ...]:
    """How many rows of a table are read together, part after part: its row groups, or its batches, small ones put
    together. Reads footer or heads only. Raises BadFile where it is garbled.
    """
    pyarrow = arrow()
    with opened(table, FOOTER) as file:
        if is_parquet(table):
            about = pyarrow.parquet.read_metadata(file)
            return tuple(about.row_group(number).num_rows for number in range(about.num_row_groups))
        return tuple(put_together(message.rows for message in messages(file) if message.kind == ROWS))


def put_together(counts: Iterator[int]) -> Iterator[int]:
    """Numbers of rows of batches that follow each other, added up as far as TOGETHER."""
    so_far = 0
    for count in counts:
        if so_far and so_far + count > TOGETHER:
            yield so_far
            so_far = 0
        so_far += count
    if so_far:
        yield so_far


def rows(piece: Piece, field: str) -> Iterator[tuple[int, str | Bad]]:
    """The texts of a piece of a table, with the numbers of their rows, from 0.

    Raises RequestError where it has no such column, or one of no texts; BadFile where it is garbled.
    """
    arrow()
    with opened(piece.input) as file:
        at = piece.start
        for column in (parquet_columns if is_parquet(piece.input) else arrow_columns)(file, piece, field):
            for text in texts(column):
                if not piece.holds(at):
                    return
                yield at, text
                at += 1


def parquet_columns(file: BinaryIO, piece: Piece, field: str) -> Iterator["pyarrow.Array"]:
    """A column from a piece's first row on, some rows at a time."""
    pyarrow = arrow()
    table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER)
    check_column(piece.input, table.schema_arrow, field)
    before = 0
    for number in range(table.metadata.num_row_groups):
        count = table.metadata.row_group(number).num_rows
        if before + count > piece.start and piece.holds(before):
            skipped = max(0, piece.start - before)
            for batch in table.iter_batches(BATCH, row_groups=[number], columns=[field], use_threads=False):
                yield batch.column(batch.schema.get_field_index(field)).slice(skipped)
                skipped = max(0, skipped - len(batch))
        before += count


def arrow_columns(file: BinaryIO, piece: Piece, field: str) -> Iterator["pyarrow.Array"]:
    """The same of an .arrow file."""
    pyarrow = arrow()
    ranges, before, first = [], 0, None
    for message in messages(file):
        if message.kind == ROWS and not piece.holds(before):
            break
        if message.kind != ROWS or before + message.rows > piece.start:
            ranges.append((message.start, message.stop))
            first = before if first is None and message.kind == ROWS else first
        before += message.rows
    stream = pyarrow.ipc.open_stream(pyarrow.PythonFile(Spliced(file, ranges), mode="r"))
    place = check_column(piece.input, stream.schema, field)
    skipped = piece.start - (first or 0)
    for batch in stream:
        yield batch.column(place).slice(skipped)
        skipped = max(0, skipped - len(batch))


def check_column(table: Input, schema: "pyarrow.Schema", field: str) -> int:
    """The number of a column. Raises RequestError where it is missing, is there twice, or is no column of texts."""
    kinds = arrow().types
    names = ", ".join(printable(name) for name in schema.names)
    found = [number for number, name in enumerate(schema.names) if name == field]
    if len(found) != 1:
        count = "no column" if not found else f"{len(found)} columns"
        raise RequestError(f"{table.shown} has {count} {quoted(field)}: it has {shorten(names, 100)}")
    kind = schema.types[found[0]]
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    if not (kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_string_view(inner)):
        raise RequestError(
            f"{table.shown}: its column {quoted(field)} is of {shorten(str(kind), 30)}, not of texts: it has "
            f"{shorten(names, 100)}"
        )
    return found[0]


def texts(column: "pyarrow.Array") -> list[str | Bad]:
    """What stands in the rows of a column of texts. Raises ValueError where it is garbled."""
    pyarrow = arrow()
    if pyarrow.types.is_dictionary(column.type):
        words, places = as_bytes(column.dictionary), column.indices
        places.validate(full=True)
        content = words.take(places)  # which refuses places that there are not
    else:
        content = as_bytes(column)
    return [decoded(one) for one in content.to_pylist()]


def as_bytes(column: "pyarrow.Array") -> "pyarrow.Array":
    """Texts that may be no UTF-8. Raises ValueError where what is garbled would lead to anywhere in memory."""
    pyarrow = arrow()
    kinds = {
        pyarrow.string(): pyarrow.binary(),
        pyarrow.large_string(): pyarrow.large_binary(),
        pyarrow.string_view(): pyarrow.binary_view(),
    }
    content = column.view(kinds[column.type])
    content.validate(full=True)
    return content


NOTHING = Bad("there is no text (null)")


def decoded(content: bytes | None) -> str | Bad:
    if content is None:
        return NOTHING
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        return Bad(f"not UTF-8 at byte {error.start}")
