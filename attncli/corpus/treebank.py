"""Read a treebank in CoNLL-U: sentences, each word with its syntactic head.

`conllu` parses it. This module checks that the heads form a tree.
Format: https://universaldependencies.org/format.html
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from sys import intern

import numpy as np

from attncli.base.errors import RequestError, install_hint
from attncli.base.printable import first_line
from attncli.corpus.files import TREEBANKS, InputFile
from attncli.corpus.texts import Choosing, Line, LinePlace, paragraphs
from attncli.text.tokens import Tokens

PUNCTUATION = "punct"
NOWHERE = LinePlace("", 1)  # of a sentence without a file


@dataclass(frozen=True)
class TreeSentence:
    """One sentence of a treebank. All lists have one entry per word.

    words: syntactic words. heads: the index, from 0, of the word that this one depends on; None for a root. relations:
    the kind of the dependency ("nsubj", "acl:relcl"). where: the line of the file with its first word. text: the
    sentence as written, which the model reads. spans: the characters [start, end) of each word in it. If a multiword
    token is not its forms joined ("du" for "de" and "le"), its words all have the span of the token. numbers: the unit
    of each word if words share units (`words_of`); empty if each word is one. agrees: True if `text` is the treebank's
    own, or built from its forms because it has none.
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
        """The index of each word in maps: words that share a token are one unit."""
        return self.numbers or range(len(self))

    @property
    def punctuation(self) -> list[bool]:
        """Return True for each word that is punctuation, that is, whose relation is "punct"."""
        return [relation.partition(":")[0] == PUNCTUATION for relation in self.relations]


def words_of(tokens: Tokens, sentence: TreeSentence) -> tuple[Tokens, TreeSentence] | None:
    """Return the tokens of `sentence.text` with their units as `words`, and the sentence with these units.

    A token belongs to the words that its characters belong to; a space alone belongs to the next word. Words that share
    a token are one unit. Return None if a word has no token: the model truncates the text, or the tokenizer drops all
    its characters. If the tokenizer gives no offsets, its own words are used, provided their number matches that of the
    sentence's words or of the stretches between its spaces.
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
    """Reads a treebank, and can select some of its sentences.

    Words are syntactic words: the parts of a multiword token such as "don't" (2-3) count, but not the token itself.
    Empty nodes (6.1) are omitted. A sentence may have several roots, as in older treebanks, but no cycle. Its text is
    the comment "# text = ...". Without it, or if its words differ, the text is the forms, with a space after each that
    lacks SpaceAfter=No.
    """

    kinds = TREEBANKS

    def read(self, one: InputFile) -> Iterator[TreeSentence]:
        try:
            import conllu  # noqa: F401
        except ImportError as error:
            raise RequestError(f"reading a treebank needs conllu: {install_hint('probe')}") from error
        for block in paragraphs(one):
            words = [raw for raw in block if not raw.content.startswith(b"#")]
            if not words:
                continue
            where = words[0].where
            try:
                text = "\n".join(raw.decoded().rstrip("\r\n") for raw in block)
                if self.takes(Line(where, text)):
                    yield _read_sentence(where, text)
            except ValueError as error:
                self.refuse(where, first_line(error))


def _read_sentence(where: LinePlace, block: str) -> TreeSentence:
    """Return the sentence in the lines of a block. Raises ValueError if it is not CoNLL-U or not a tree."""
    from conllu.exceptions import ParseException
    from conllu.parser import parse_token_and_metadata

    try:
        tokens = parse_token_and_metadata(block)
    except ParseException as error:
        raise ValueError(first_line(error)) from error
    if any("deprel" not in token for token in tokens):
        raise ValueError("a line does not have the 10 tab-separated columns of CoNLL-U")
    words = [token for token in tokens if isinstance(token["id"], int)]  # others: 2-3 is a multiword token, 6.1 empty
    if not words or [token["id"] for token in words] != list(range(1, len(words) + 1)):
        raise ValueError("the words of the sentence are not numbered 1, 2, 3 ...")
    places: list[int | None] = []
    for token in words:
        head = token["head"]
        if head is None or not 0 <= head <= len(words):
            raise ValueError(f"the head of word {token['id']} is {head}, but the sentence has words 1 to {len(words)}")
        places.append(head - 1 if head else None)
    if _has_cycle(places):
        raise ValueError("the heads form a cycle, so this is not a tree")
    multiword = {
        token["id"][0]: token for token in tokens if not isinstance(token["id"], int) and token["id"][1] == "-"
    }
    surface: list[tuple[str, int, bool]] = []  # forms as written: their number of words, and whether a space follows
    number = 1
    while number <= len(words):
        token = multiword.get(number, words[number - 1])
        last = number if isinstance(token["id"], int) else token["id"][2]
        if last > len(words):
            raise ValueError(f"a multiword token ends with word {last}, but the sentence has {len(words)}")
        surface.append((token["form"], last - number + 1, (token.get("misc") or {}).get("SpaceAfter") != "No"))
        number = last + 1
    forms = [intern(token["form"]) for token in words]
    relations = [intern(token["deprel"]) for token in words]
    written = (tokens.metadata.get("text") or "").strip()
    spans = _find_forms(written, forms, surface) if written else None
    if spans is not None:
        return TreeSentence(forms, places, relations, where, written, spans)
    made = "".join(form + " " * spaced for form, _, spaced in surface).strip(" ")
    found = _find_forms(made, forms, surface)
    assert found is not None
    return TreeSentence(forms, places, relations, where, made, found, agrees=not written)


def _find_forms(
    text: str, words: Sequence[str], surface: Sequence[tuple[str, int, bool]]
) -> list[tuple[int, int]] | None:
    """Return the span of each word in a text; None if the text is not just these forms and white space."""
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


def _has_cycle(heads: Sequence[int | None]) -> bool:
    """Return whether following the heads of some word never reaches a root."""
    rooted: set[int | None] = {None}
    for word in range(len(heads)):
        path: set[int | None] = set()
        place: int | None = word
        while place is not None and place not in rooted:
            if place in path:
                return True
            path.add(place)
            place = heads[place]
        rooted |= path
    return False
