"""A treebank in CoNLL-U: sentences, each word with its syntactic head.

`conllu` parses it. Whether the heads form a tree is checked here.
Format: https://universaldependencies.org/format.html
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from sys import intern

import numpy as np

from attncli.base.errors import Notice, RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.files import TREEBANKS, InputFile
from attncli.corpus.texts import Choosing, LinePlace, paragraphs
from attncli.text.tokens import Tokens

PUNCTUATION = "punct"
NOWHERE = LinePlace("", 1)  # of a sentence that is of no file


@dataclass(frozen=True)
class TreeSentence:
    """One sentence of a treebank. All lists have one entry per word.

    words: syntactic words. heads: the place, from 0, of the word that this one depends on; None for a root. relations:
    the kind of the dependency ("nsubj", "acl:relcl"). where: the line of the file with its first word.
    text: the sentence as it is written, which the model reads. spans: the characters [start, end) of each word in it;
    words of a multiword token that is not made of their forms ("du" of "de" and "le") all have those of the token.
    numbers: the unit of each word, where words share units (`words_of`); empty where each word is one.
    agrees: whether `text` is the treebank's own, or made of its forms where it has none.
    """

    words: list[str]
    heads: list[int | None]
    relations: list[str]
    where: LinePlace = NOWHERE
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


def words_of(tokens: Tokens, sentence: TreeSentence) -> tuple[Tokens, TreeSentence] | None:
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


@dataclass(frozen=True)
class TreebankFormat(Choosing):
    """The choice among the sentences of a treebank.

    Words are syntactic words: the parts of a multiword token such as "don't" (2-3) count and the token does not, and
    empty nodes (6.1) are left out. A sentence may have several roots, as in older treebanks, but no cycle. Its text is
    the comment "# text = ..."; without it, or if its words are others, the forms, with a space after each that has no
    SpaceAfter=No.
    """

    kinds = TREEBANKS

    def read(self, one: InputFile) -> Iterator[TreeSentence]:
        try:
            import conllu  # noqa: F401
        except ImportError as error:
            raise RequestError(f"reading a treebank needs conllu: {install_hint('probe')}") from error
        for at, block in paragraphs(one):
            try:
                rows = [(raw.where, raw.decoded().rstrip("\r\n")) for raw in block]
                words = [row for row in rows if not row[1].startswith("#")]
                if words and self.takes(at, "\n".join(line for _, line in words)):
                    yield _read_sentence(words[0][0], "\n".join(line for _, line in rows))
            except ValueError as error:
                lines = ((raw.where, (raw.content or b"").removeprefix(b"\xef\xbb\xbf")) for raw in block)
                where = next((place for place, line in lines if not line.startswith(b"#")), block[0].where)
                if not self.skip_bad:
                    raise RequestError(
                        f"{where}: {first_line(error)}: --skip-bad passes such sentences over"
                    ) from error
                warnings.warn(f"skipped a sentence: {where}: {first_line(error)}", Notice, stacklevel=2)


def _read_sentence(where: LinePlace, block: str) -> TreeSentence:
    """Return the sentence in the lines of a block. Raises ValueError for anything that is no CoNLL-U or no tree."""
    from conllu.exceptions import ParseException
    from conllu.parser import parse_token_and_metadata

    try:
        tokens = parse_token_and_metadata(block)
    except ParseException as error:
        raise ValueError(first_line(error)) from error
    words: list[str] = []
    heads: list[int] = []
    relations: list[str] = []
    surface: list[tuple[str, int, bool]] = []  # forms as written: of how many words, and whether a space follows
    inside = 0  # the last word of the multiword token so far
    for token in tokens:
        if "deprel" not in token:
            raise ValueError(f"{len(token)} columns, and CoNLL-U has 10, with tabs between them")
        spaced = (token.get("misc") or {}).get("SpaceAfter") != "No"
        number, ranged = token["id"], isinstance(token["id"], tuple)
        if ranged:
            number, kind, last = number
            if kind == ".":
                continue  # an empty node is no word
        if number != len(words) + 1 or (ranged and number <= inside):
            raise ValueError(f"word {len(words) + 1} of the sentence is expected, and here is {number}")
        if ranged:
            inside = last
            surface.append((token["form"], last - number + 1, spaced))
            continue
        if number > inside:
            surface.append((token["form"], 1, spaced))
        if token["head"] is None:
            raise ValueError(f"word {number} has no head: a treebank with trees is needed")
        words.append(intern(token["form"]))
        heads.append(token["head"])
        relations.append(intern(token["deprel"]))
    if len(words) < max(inside, 1):
        missing = "has no word" if not words else f"ends before word {inside}, the last of a multiword token"
        raise ValueError(f"the sentence {missing}")
    for head in heads:
        if not 0 <= head <= len(words):
            raise ValueError(f"head {head} is no word of the sentence, which has {len(words)}")
    places = [None if head == 0 else head - 1 for head in heads]
    looping = _find_cycle(places)
    if looping is not None:
        raise ValueError(f"from word {looping + 1} on the heads lead in a circle: this is no tree")
    forms = "".join(form + " " * spaced for form, _, spaced in surface).strip(" ")
    written = (tokens.metadata.get("text") or "").strip()
    spans = _find_forms(written, words, surface) if written else None
    if spans is not None:
        return TreeSentence(words, places, relations, where, written, spans)
    found = _find_forms(forms, words, surface)
    assert found is not None
    return TreeSentence(words, places, relations, where, forms, found, agrees=not written)


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
