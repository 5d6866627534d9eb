"""A treebank in CoNLL-U: sentences, each word with its syntactic head.

`conllu` reads the columns; what makes a tree of them is checked here. Format: https://universaldependencies.org/format.html
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any

from attncli.base.errors import RequestError
from attncli.base.printable import first_line
from attncli.corpus.reading import raw_lines, shown
from attncli.text.trees import Sentence

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")  # the others say nothing of the tree


def read_treebank(path: str | Path, limit: int | None = None) -> list[Sentence]:
    """The sentences of a CoNLL-U file, or the first `limit` of them; "-" is stdin.

    Words are its syntactic words: of a multiword token such as "don't" (2-3) the parts count and it does not, and
    empty nodes (6.1) are left out. A sentence may have several roots, as older treebanks do, but no cycle.

    Raises RequestError, with the line, for what is no CoNLL-U or no tree, and for a file that can't be read.
    """
    name = shown(str(path))
    sentences = [read_sentence(name, block) for block in islice(blocks(decoded(name, raw_lines(str(path)))), limit)]
    if not sentences:
        raise RequestError(f"{name} has no sentence in it: a treebank in CoNLL-U is needed")
    return sentences


def decoded(name: str, lines: Iterable[bytes | None]) -> Iterator[str]:
    """Lines as text, without a byte order mark at their head. Raises RequestError for one that is not UTF-8, or longer
    than any is read.
    """
    for number, line in enumerate(lines, start=1):
        if line is None:
            raise RequestError(f"{name}, line {number}: too long for a word with its columns: CoNLL-U is needed")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise RequestError(
                f"{name}, line {number}: not UTF-8 at byte {error.start}: convert the file first"
            ) from error


def blocks(lines: Iterable[str]) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence with their numbers, without comments; empty lines stand between sentences."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            block.append((number, line.rstrip("\r\n")))
        elif not line.strip() and block:
            yield block
            block = []
    if block:
        yield block


def read_sentence(name: str, block: Sequence[tuple[int, str]]) -> Sentence:
    """One sentence from its lines. Raises RequestError as `read_treebank` does."""
    words: list[str] = []
    heads: list[int] = []
    relations: list[str] = []
    lines: list[int] = []
    for number, line in block:
        fields = read_fields(name, number, line)
        if isinstance(fields["id"], tuple):  # a multiword token, an empty node
            continue
        if fields["id"] != len(words) + 1:
            raise RequestError(f"{name}, line {number}: word {len(words) + 1} of the sentence is expected here")
        if fields["head"] is None:
            raise RequestError(f"{name}, line {number}: the word has no head: a treebank with trees is needed")
        words.append(intern(fields["form"]))
        heads.append(fields["head"])
        relations.append(intern(fields["deprel"]))
        lines.append(number)
    if not words:
        raise RequestError(f"{name}, line {block[0][0]}: the sentence has no word")
    for number, head in zip(lines, heads, strict=True):
        if not 0 <= head <= len(words):
            raise RequestError(f"{name}, line {number}: head {head} is no word of the sentence, which has {len(words)}")
    places = [None if head == 0 else head - 1 for head in heads]
    looping = cycle(places)
    if looping is not None:
        raise RequestError(f"{name}, line {lines[looping]}: the heads from here on lead in a circle: this is no tree")
    return Sentence(words, places, relations, lines[0])


def read_fields(name: str, number: int, line: str) -> dict[str, Any]:
    """The columns of one line by their names, id and head as numbers. Raises RequestError as `read_treebank` does."""
    try:
        from conllu.exceptions import ParseException
        from conllu.parser import parse_id_value, parse_int_value, parse_line
    except ImportError as error:
        raise RequestError("reading a treebank needs conllu: pip install 'attncli[probe]'") from error
    parsers = {
        "id": lambda row, place: parse_id_value(row[place]),
        "head": lambda row, place: parse_int_value(row[place]),
    }
    try:
        fields = parse_line(line, FIELDS, parsers)
    except (ParseException, ValueError) as error:  # int() refuses numbers of thousands of digits
        raise RequestError(f"{name}, line {number}: {first_line(error)}") from error
    if len(fields) < len(FIELDS):
        raise RequestError(f"{name}, line {number}: {len(fields)} columns, and CoNLL-U has 10, with tabs between them")
    return dict(fields)


def cycle(heads: Sequence[int | None]) -> int | None:
    """The first word from which the heads lead to no root, or None in a tree."""
    rooted: set[int] = set()
    for word in range(len(heads)):
        path: set[int] = set()
        place: int | None = word
        while place is not None and place not in rooted:
            if place in path:
                return word
            path.add(place)
            place = heads[place]
        rooted |= path
    return None
