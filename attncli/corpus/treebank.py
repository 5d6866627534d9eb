"""A treebank in CoNLL-U: sentences, each word with its syntactic head.

`conllu` reads the columns. Whether the heads form a tree is checked here.
Format: https://universaldependencies.org/format.html
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import itemgetter
from sys import intern
from typing import Any

import numpy as np

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.files import BadFile, Piece
from attncli.corpus.texts import LONGEST, Choosing, RawLine, lines_in_blocks
from attncli.text.tokens import Tokens

PUNCTUATION = "punct"


@dataclass(frozen=True)
class Sentence:
    """One sentence of a treebank. All lists have one entry per word.

    words: as written. heads: the place, from 0, of the word that this one depends on; None for a root. relations: the
    kind of the dependency ("nsubj", "acl:relcl"). line: the line of the file with its first word, from 1.
    """

    words: list[str]
    heads: list[int | None]
    relations: list[str]
    line: int

    def __len__(self) -> int:
        return len(self.words)

    @property
    def text(self) -> str:
        """Return the words joined by single spaces, which is what a model reads, however the original was spaced."""
        return " ".join(self.words)

    @property
    def punctuation(self) -> list[bool]:
        """Return for each word True if it is punctuation: if its relation is "punct"."""
        return [relation.partition(":")[0] == PUNCTUATION for relation in self.relations]


def words_of(tokens: Tokens, sentence: Sentence) -> Tokens | None:
    """Return the tokens of `sentence.text` with the sentence's words as `words`; None if a word has no token.

    A token belongs to the word that contains its last character; a token of only a space, to the next word. A word has
    no token if the model truncates the text, or the tokenizer drops all its characters. If the tokenizer gives no
    offsets, its own words are used if they are as many.
    """
    if not any(end for _, end in tokens.offsets):
        return tokens if set(tokens.words) - {None} == set(range(len(sentence))) else None
    ends = np.cumsum([len(word) + 1 for word in sentence.words]) - 1
    of = [
        None if special else int(np.searchsorted(ends, end))
        for special, (_, end) in zip(tokens.special, tokens.offsets, strict=True)
    ]
    return replace(tokens, words=of) if set(range(len(sentence))) <= set(of) else None


FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel")  # the other columns are not read


@dataclass(frozen=True)
class TreebankFormat(Choosing):
    """The choice among the sentences of a treebank."""

    def sentences(self, pieces: Iterable[Piece]) -> Iterator[Sentence]:
        """Yield the sentences of all pieces in order.

        Words are syntactic words: the parts of a multiword token such as "don't" (2-3) count and the token does not,
        and empty nodes (6.1) are left out. A sentence may have several roots, as in older treebanks, but no cycle.

        Raises RequestError, with the line, for anything that is no CoNLL-U or no tree, and BadFile for a file that
        can't be read.
        """
        return islice((sentence for piece in pieces for _, sentence in self.chosen_sentences(piece)), self.limit)

    def places(self, piece: Piece) -> Iterator[int]:
        return (place for place, _ in self.chosen_sentences(piece))

    def chosen_sentences(self, piece: Piece) -> Iterator[tuple[int, Sentence]]:
        """Yield the sentences of a piece that are taken, whatever the limit, with their places."""
        check_installed()  # once, not per sentence: --skip-bad can't skip a missing library
        for place, lines in groupby(lines_in_blocks(piece), itemgetter(0)):
            try:
                block = list(_word_lines(line for _, line in lines))
                if block and self.takes(place, "\n".join(line for _, line in block)):
                    yield place, _read_sentence(piece.input.display_name, block)
            except BadFile:
                raise
            except RequestError as error:
                if not self.skip_bad:
                    raise RequestError(f"{error}: --skip-bad passes such sentences over") from error
                warnings.warn(f"skipped a sentence: {error}", Notice, stacklevel=2)


def check_installed() -> None:
    """Raises RequestError if conllu is not installed."""
    try:
        import conllu  # noqa: F401
    except ImportError as error:
        raise RequestError(f"reading a treebank needs conllu: {install_hint('probe')}") from error


def _word_lines(lines: Iterable[RawLine]) -> Iterator[tuple[int, str]]:
    """Yield the lines of words with their numbers. Raises RequestError for a line that is not UTF-8 or too long, and
    for a block longer than any sentence.
    """
    first, room = None, LONGEST
    for line in lines:
        first = first or (line.where, line.where.number)
        number = first[1] + line.where.nth - first[0].nth
        where = f"{line.where.input.display_name}, line {number}"
        if line.content is None:
            raise RequestError(f"{where}: too long for a word with its columns: CoNLL-U is needed")
        room -= len(line.content)
        if room < 0:
            raise RequestError(f"{where}: too much for one sentence: CoNLL-U has empty lines between them")
        try:
            text = line.decoded()
        except ValueError as error:
            raise RequestError(f"{where}: {error}: convert the file first") from error
        if text.strip() and not text.startswith("#"):
            yield number, text.rstrip("\r\n")


def _read_sentence(name: str, block: Sequence[tuple[int, str]]) -> Sentence:
    """Return a sentence from its lines. Raises RequestError as `TreebankFormat.sentences`."""
    words: list[str] = []
    heads: list[int] = []
    relations: list[str] = []
    lines: list[int] = []
    for number, line in block:
        fields = _read_columns(name, number, line)
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
    looping = _find_cycle(places)
    if looping is not None:
        raise RequestError(f"{name}, line {lines[looping]}: the heads from here on lead in a circle: this is no tree")
    return Sentence(words, places, relations, lines[0])


def _read_columns(name: str, number: int, line: str) -> dict[str, Any]:
    """Return the columns of a line by name, id and head as numbers. Raises RequestError as `sentences`."""
    from conllu.exceptions import ParseException
    from conllu.parser import parse_id_value, parse_int_value, parse_line

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


def _find_cycle(heads: Sequence[int | None]) -> int | None:
    """Return the first word from which the heads lead to no root; None for a tree."""
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
