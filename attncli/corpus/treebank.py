"""A treebank in CoNLL-U: sentences, each word with its syntactic head.

`conllu` reads the columns. Whether the heads form a tree is checked here.
Format: https://universaldependencies.org/format.html
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice
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

    words: syntactic words. heads: the place, from 0, of the word that this one depends on; None for a root. relations:
    the kind of the dependency ("nsubj", "acl:relcl"). line: the line of the file with its first word, from 1.
    text: the sentence as it is written, which the model reads. spans: the characters [start, end) of each word in it;
    words of a multiword token that is not made of their forms ("du" of "de" and "le") all have those of the token.
    numbers: the unit of each word, where words share units (`words_of`); empty where each word is one.
    agrees: whether `text` is the treebank's own, or made of its forms where it has none.
    """

    words: list[str]
    heads: list[int | None]
    relations: list[str]
    line: int
    text: str = ""
    spans: Sequence[tuple[int, int]] = ()
    numbers: Sequence[int] = ()
    agrees: bool = True

    def __len__(self) -> int:
        return len(self.words)

    @property
    def units(self) -> Sequence[int]:
        """The place of each word in maps: words that share a token are one unit."""
        return self.numbers or range(len(self))

    @property
    def punctuation(self) -> list[bool]:
        """Return for each word True if it is punctuation: if its relation is "punct"."""
        return [relation.partition(":")[0] == PUNCTUATION for relation in self.relations]


def words_of(tokens: Tokens, sentence: Sentence) -> tuple[Tokens, Sentence] | None:
    """Return the tokens of `sentence.text` with their units as `words`, and the sentence with these units.

    A token belongs to the words that its characters belong to; one of only a space, to the next word. Words that share
    a token are one unit. A word has no token if the model truncates the text, or the tokenizer drops all its
    characters; then return None. If the tokenizer gives no offsets, its own words are used, if they are as many as the
    sentence's or as the stretches between its spaces.
    """
    starts, ends = np.array(sentence.spans).T
    if not any(end for _, end in tokens.offsets):
        count = len(set(tokens.words) - {None})
        if count == len(sentence):
            return tokens, sentence
        gaps = [match.start() for match in re.finditer(r"(?<=\S)\s+", sentence.text)]
        units = np.searchsorted(gaps, starts, side="right").tolist()
        return (tokens, replace(sentence, numbers=units)) if count == len(gaps) + 1 else None
    joined, found = np.zeros(len(sentence) - 1, dtype=bool), np.zeros(len(sentence), dtype=bool)
    first: list[int | None] = []  # the first word of each token
    for special, (start, end) in zip(tokens.special, tokens.offsets, strict=True):
        if special:
            first.append(None)
            continue
        low, high = int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))
        joined[low : max(high - 1, low)] = True
        found[low:high] = True
        first.append(min(low, len(sentence) - 1))
    if not found.all():
        return None
    units = [0, *np.cumsum(~joined).tolist()]
    of = [None if word is None else units[word] for word in first]
    return replace(tokens, words=of), replace(sentence, numbers=units)


FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LEAST_COLUMNS = 8


@dataclass(frozen=True)
class TreebankFormat(Choosing):
    """The choice among the sentences of a treebank."""

    def sentences(self, pieces: Iterable[Piece]) -> Iterator[Sentence]:
        """Yield the sentences of all pieces in order.

        Words are syntactic words: the parts of a multiword token such as "don't" (2-3) count and the token does not,
        and empty nodes (6.1) are left out. A sentence may have several roots, as in older treebanks, but no cycle. Its
        text is the comment "# text = ..."; without it, or if its words are others, the forms, with a space after each
        that has no SpaceAfter=No.

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
                rows = [row for row in block if not row[1].startswith("#")]
                if rows and self.takes(place, "\n".join(line for _, line in rows)):
                    comments = (TEXT.fullmatch(line) for _, line in block)
                    texts = [comment[1] for comment in comments if comment]
                    yield place, _read_sentence(piece.input.display_name, rows, texts[0] if texts else "")
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
    """Yield the lines of words and comments with their numbers.

    Raises RequestError for a line that is not UTF-8 or too long, and for a block longer than any sentence.
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
        if text.strip():
            yield number, text.rstrip("\r\n")


TEXT = re.compile(r"#\s*text\s*=\s*(.*?)\s*")


def _read_sentence(name: str, block: Sequence[tuple[int, str]], written: str) -> Sentence:
    """Return a sentence from its lines. written: its text in a comment; empty if there is none.

    Raises RequestError as `TreebankFormat.sentences`.
    """
    words: list[str] = []
    heads: list[int] = []
    relations: list[str] = []
    lines: list[int] = []
    surface: list[tuple[str, int, bool]] = []  # forms as written: of how many words, and whether a space follows
    inside = 0  # the last word of the multiword token so far
    for number, line in block:
        fields = _read_columns(name, number, line)
        spaced = "SpaceAfter=No" not in (fields.get("misc") or "").split("|")
        if isinstance(fields["id"], tuple):
            first, kind, last = fields["id"]
            if kind == "-":
                if first != len(words) + 1 or first <= inside:
                    raise RequestError(f"{name}, line {number}: word {len(words) + 1} of the sentence is expected here")
                inside = last
                surface.append((fields["form"], last - first + 1, spaced))
            continue  # an empty node is no word
        if fields["id"] != len(words) + 1:
            raise RequestError(f"{name}, line {number}: word {len(words) + 1} of the sentence is expected here")
        if fields["head"] is None:
            raise RequestError(f"{name}, line {number}: the word has no head: a treebank with trees is needed")
        words.append(intern(fields["form"]))
        if len(words) > inside:
            surface.append((fields["form"], 1, spaced))
        heads.append(fields["head"])
        relations.append(intern(fields["deprel"]))
        lines.append(number)
    if len(words) < max(inside, 1):
        missing = "has no word" if not words else f"ends before word {inside}, the last of a multiword token"
        raise RequestError(f"{name}, line {block[0][0]}: the sentence {missing}")
    for number, head in zip(lines, heads, strict=True):
        if not 0 <= head <= len(words):
            raise RequestError(f"{name}, line {number}: head {head} is no word of the sentence, which has {len(words)}")
    places = [None if head == 0 else head - 1 for head in heads]
    looping = _find_cycle(places)
    if looping is not None:
        raise RequestError(f"{name}, line {lines[looping]}: the heads from here on lead in a circle: this is no tree")
    forms = "".join(form + " " * spaced for form, _, spaced in surface).strip(" ")
    spans = _find_forms(written, words, surface) if written else None
    if spans is not None:
        return Sentence(words, places, relations, lines[0], written, spans)
    found = _find_forms(forms, words, surface)
    assert found is not None
    return Sentence(words, places, relations, lines[0], forms, found, agrees=not written)


def _find_forms(
    text: str, words: Sequence[str], surface: Sequence[tuple[str, int, bool]]
) -> list[tuple[int, int]] | None:
    """Return the characters of each word in a text. Return None if the text is not these forms and white space."""
    spans: list[tuple[int, int]] = []
    at = 0
    for form, count, _ in surface:
        match = re.compile(r"\s*(" + r"\s+".join(map(re.escape, form.split())) + ")").match(text, at)
        if match is None:
            return None
        start, at = match.span(1)
        parts = words[len(spans) : len(spans) + count]
        if "".join(parts).casefold() == form.casefold() and len("".join(parts)) == at - start:
            ends = [start + end for end in accumulate(map(len, parts))]
            spans += zip([start, *ends[:-1]], ends, strict=True)
        else:
            spans += [(start, at)] * count
    return None if text[at:].strip() else spans


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
    if len(fields) < LEAST_COLUMNS:
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
