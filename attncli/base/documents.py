"""Documents, which --json prints, in files: whole as .json; as .csv a table, one list of theirs with a row an entry.

Files hold every text as it is: what is harmful to a terminal is for whoever prints it to escape, and a token such as
"=1" is no formula to pandas. A spreadsheet must be told so ("import as text").
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attncli.base.files import check_suffix, write_whole

DOCUMENTS = (".json", ".csv")  # how documents are saved


def as_text(document: Mapping[str, Any]) -> str:
    """A document as --json prints it: one line of ASCII, which survives any terminal and encoding.

    Raises ValueError for NaN and infinity, which JSON has not.
    """
    return json.dumps(document, allow_nan=False) + "\n"


def save_document(document: Mapping[str, Any], entries: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Save by suffix: .json, what --json prints; .csv, a row for each of the `entries`. Whole or not at all.

    Columns are the fields of the entries. A field with fields of its own is a column for each, under both names
    ("causal_moved"); lists, which have no place in a cell, are left out.

    Raises RequestError for another suffix or an unwritable place.
    """
    if check_suffix(path, DOCUMENTS, "a document") == ".json":
        write_whole(path, lambda temporary: temporary.write_text(as_text(document), encoding="utf-8"))
    else:
        rows = [flat(entry) for entry in entries]
        header = list(dict.fromkeys(name for row in rows for name in row))
        write_whole(path, lambda file: write_table(header, ([row.get(name) for name in header] for row in rows), file))


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without its lists, and with the fields of its fields: {"a": 1, "b": {"c": 2}} has a and b_c."""
    row: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{inner}": found for inner, found in flat(value).items()}
        elif not isinstance(value, list):
            row[name] = value
    return row


def write_table(header: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> None:
    r"""A CSV file in UTF-8: one line of names, then the rows, each ending in \n. None is an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        # Up to Python 3.12 a writer quotes only the characters that its own lines end in, and "\r" may be a token.
        lines = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
        writer = csv.writer(lines, lineterminator="\r\n")
        writer.writerow(header)
        writer.writerows(rows)
