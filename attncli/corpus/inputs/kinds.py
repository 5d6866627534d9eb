"""What a file of a corpus is, by its name."""

from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import NamedTuple

GZIP, ZSTD = (".gz",), (".zst", ".zstd")
REMEMBERED = "cache-*.arrow"  # what `datasets` made of a dataset and put beside it: the same texts, once more
TEXT, JSON, PARQUET, ARROW, TREEBANK = (".txt",), (".jsonl", ".ndjson"), (".parquet",), (".arrow",), (".conllu",)


class Kinds(NamedTuple):
    """What a command reads: of a folder, the files that hold it.

    what: in words. lines: suffixes of files of lines, which may be compressed; tables: of those of rows.
    """

    what: str
    lines: tuple[str, ...]
    tables: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether a file of that name is one of them."""
        return suffix(name) in self.lines or (self.is_table(name) and not fnmatch(name, REMEMBERED))

    def is_table(self, name: str) -> bool:
        """Whether a file of that name is read as rows."""
        return is_table(name) and suffix(name) in self.tables

    @property
    def suffixes(self) -> str:
        return " ".join(self.lines + self.tables)


TEXTS = Kinds("texts", TEXT + JSON, PARQUET + ARROW)
TREEBANKS = Kinds("treebanks", TREEBANK)


def compression(name: str) -> str | None:
    """What a file is compressed by: "gzip", "zstd", or None for a file that is not compressed."""
    suffix = PurePosixPath(name).suffix.lower()
    return "gzip" if suffix in GZIP else "zstd" if suffix in ZSTD else None


def is_compressed(name: str) -> bool:
    return compression(name) is not None


def suffix(name: str) -> str:
    """The suffix of what a file holds, in lower case: of "a.JSONL.gz" it is ".jsonl"."""
    path = PurePosixPath(name)
    return (PurePosixPath(path.stem) if is_compressed(name) else path).suffix.lower()


def is_json(name: str) -> bool:
    return suffix(name) in JSON


def is_table(name: str) -> bool:
    """A table is compressed inside, if it is: "a.parquet.gz" is none."""
    return PurePosixPath(name).suffix.lower() in PARQUET + ARROW
