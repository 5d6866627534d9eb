r"""Split a text into units: lines, sentences, and parts that the user names. No tokenizer is needed.

A unit is a span of characters, (start, end). Lines and sentences cover the whole text: white space after a unit belongs
to it, and white space at the beginning of the text belongs to the first.

A sentence ends

- after `.`, `!`, `?` or `…` (or several of them), and closing quotes, brackets, `*` and `[1]` after them, if
  white space or the end of the text follows; after `!` and `?` also if a Chinese or Japanese character follows.
  So `3.14`, `v1.2` and `example.com` are not split.
- after `。`, `！`, `？`, `｡`, `।`, `؟`, `۔` and the same closing marks, whatever follows.
- at the end of a line, unless the line ends with a letter or a comma and the next begins with a lower-case letter, as
  in text that is broken at a fixed width. So a heading, a list item and a row of a table are sentences of their own.

It does not end

- after an abbreviation that never ends one: "Dr.", "e.g.", "Fig."; after "No.", "p.", "Jan.", if a digit follows.
- after an abbreviation that can end a sentence ("etc.", "Inc.", "Ph.D.") if no capital follows.
- after initials ("U.S.", "J. R. R. Tolkien", "a.m."), unless a word follows that often begins a sentence: "The", "It".
- after the number or letter of a list item that begins the sentence: "1. Take it."
- if a lower-case letter follows "...", a single letter ("a."), or a closing quote or bracket after the stop, as in
  `"Is it?" he asked.`
- if a comma, colon or semicolon follows the closing marks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from attncli.base.errors import RequestError
from attncli.base.printable import printable, quoted, shorten
from attncli.text.tokens import Tokens

Span = tuple[int, int]

REST = "(rest)"  # the part of the text that no other part covers


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FOLLOWED = _words(
    "dr mr mrs ms prof st messrs mme mlle gen col capt lt sgt rev hon sen rep gov pres sr sra dra "
    "e.g i.e eg ie vs cf viz fig figs eq eqs sec vol z.b d.h u.a bzw ca vgl"
)
_BEFORE_NUMBERS = _words("no nos nr p pp ch art par para ed vers jan feb mar apr jun jul aug sep sept oct nov dec")
_CAN_BE_LAST = _words(
    "etc inc ltd co corp jr bros dept univ assn approx est al ave blvd rd ph.d m.d b.a m.a b.sc m.sc usw"
)
_BEGINNINGS = _words(
    "The A An It He She They We You I This That These Those There In On At By For From To But And So Yet If When While "
    "After Before However What Who Where Why How My Our Your His Her Its Their No Yes Not Then Thus"
)
_INITIALS = re.compile(r"[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_]")
_ITEM = re.compile(r"\s*[(\[]?(?:\d{1,3}(?:\.\d{1,3}){0,3}|[^\W\d_]|[ivxIVX]{1,5})")
_CLOSING = r"(?:[\"'”’»›)\]}*_`」』）》】〉〕］]|\[\d{1,3}\])*"
_CHINESE = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_STOP = re.compile(
    rf"(?P<wide>[!?]*[。！？｡।॥؟۔።][。！？｡।॥؟۔።!?…]*){_CLOSING}"
    rf"|(?P<narrow>[.!?…]+)(?P<closing>{_CLOSING})(?=\s|\Z|(?<=[!?]){_CHINESE})"
    r"|(?P<line>\n)\s*"
)
_SPACE = re.compile(r"\s*")
_COMMAS = tuple("，、；：,;:")
_NEXT = re.compile(r"\s*[\"'“‘«‹(\[{*_`¿¡「『（]{0,5}")
_FIRST_WORD = re.compile(r"[^\W_]+")
_LONGEST_WORD, _LONGEST_ITEM = 24, 24  # characters of an abbreviation, and of a list item's number


def lines(text: str) -> list[Span]:
    """Return the lines of a text, each with its line break. Blank lines belong to the line before them."""
    return _cut(text, (match.end() for match in re.finditer(r"\n(?=[^\n]*\S)", text)))


def sentences(text: str) -> list[Span]:
    """Return the sentences of a text, by the rules above."""
    starts = [0]
    for match in _STOP.finditer(text):
        if match["line"] is None:
            ends = _ends(text, match, starts[-1])
        else:
            last, following = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
            touches = text.count("\n", match.start(), match.end()) == 1 and text[match.end() - 1] == "\n"
            ends = not (touches and (last.isalpha() or last == ",") and following.islower())
        if ends:
            starts.append(_after_space(text, match.end()))
    return _cut(text, starts)


def _cut(text: str, starts: Iterable[int]) -> list[Span]:
    """Split a text at these positions, except in the white space at its beginning and end."""
    begin, end = _after_space(text, 0), len(text.rstrip())
    places = sorted({start for start in starts if begin < start < end})
    return list(pairwise([0, *places, len(text)])) if text else []


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _ends(text: str, stop: re.Match[str], begin: int) -> bool:
    """Return True if a sentence that begins at `begin` ends after this stop."""
    place = _NEXT.match(text, stop.end()).end()  # type: ignore[union-attr]
    following = text[place : place + 1]
    if stop["wide"] is not None:
        return text[stop.end() : stop.end() + 1] not in _COMMAS
    if stop["narrow"] != ".":
        weak = stop["closing"] or set(stop["narrow"]) <= {".", "…"}
        return not (weak and following.islower())
    if stop["closing"] and following.islower():
        return False
    before = text[max(begin, stop.start() - _LONGEST_WORD) : stop.start()].split()
    word = before[-1].lstrip("\"'“‘«([{*_`") if before else ""
    name = word.lower()
    if stop.start() - begin <= _LONGEST_ITEM and _ITEM.fullmatch(text, begin, stop.start()):
        return False
    if name in _FOLLOWED or (name in _BEFORE_NUMBERS and following.isdigit()):
        return False
    if name in _CAN_BE_LAST:
        return not following or following.isupper()
    if len(word) == 1 and word.islower():
        return not following.islower()
    if _INITIALS.fullmatch(word):
        first = _FIRST_WORD.match(text, place)
        return first is not None and first[0] in _BEGINNINGS
    return True


# --- parts ---------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A named span of a text, in characters."""

    name: str
    start: int
    end: int


_VALUE = r"(?:\"[^\"<>]{0,200}\"|'[^'<>]{0,200}'|[^\s\"'<>=/]{1,200})"
_TAG = re.compile(
    rf"<(?P<closes>/?)(?P<name>[A-Za-z][\w.-]{{0,63}})(?P<more>(?:\s+[\w:.-]{{1,64}}={_VALUE}){{0,8}})\s*>"
)
_QUOTES = "\"'"
_NAMED = re.compile(rf"\s(?:id|name|index|n)=(?P<value>{_VALUE})")


@dataclass(frozen=True)
class PartedText:
    """A text as given to a model, and its named parts.

    parts: in the order in which they begin. They can be nested (a document in a message) and empty, but do not overlap.
    rest: the name of text that is in no part. marked: the text spells out its special tokens, as in a chat.
    """

    text: str
    parts: tuple[Part, ...] = ()
    rest: str = REST
    marked: bool = False

    @classmethod
    def tagged(cls, text: str, keep: bool = False) -> "PartedText":
        """Take the parts from the tags in a text: `<doc id="2"> ... </doc>` is the part "doc 2".

        The tags are removed, and the white space just inside them; `keep` keeps both. A part is named by its tag and
        its `id` (or `name`, `index`, `n`); parts without one are counted, "doc", "doc 2". An unmatched tag without a
        name is text, such as `<br>` and `vector<int>`.

        Raises RequestError for tags that overlap or are not closed, and for two parts of the same name.
        """
        every = list(_TAG.finditer(text))
        closed, opened = ({tag["name"] for tag in every if bool(tag["closes"]) is closes} for closes in (True, False))
        named = {tag["name"] for tag in every if not tag["closes"] and _NAMED.search(tag["more"])}
        tags = [tag for tag in every if tag["name"] in (closed & opened) | named]
        pieces = []
        for before, after in pairwise([None, *tags, None]):
            piece = text[before.end() if before else 0 : after.start() if after else len(text)]
            piece = piece.lstrip() if before and not before["closes"] else piece
            pieces.append(piece.rstrip() if after and after["closes"] else piece)
        places = [tag.start() if tag["closes"] else tag.end() for tag in tags] if keep else accumulate(map(len, pieces))
        parts: list[Part] = []
        open_tags: list[tuple[re.Match[str], int]] = []  # with the indices of their parts
        for tag, name, place in zip(tags, _names_of(tags), places, strict=False):
            if not tag["closes"]:
                open_tags.append((tag, len(parts)))
                parts.append(Part(name, place, place))
                continue
            if not open_tags or open_tags[-1][0]["name"] != tag["name"]:
                raise RequestError(_wrong_order(tag, [one for one, _ in open_tags]))
            _, number = open_tags.pop()
            parts[number] = parts[number]._replace(end=place)
        if open_tags:
            tag, _ = open_tags[-1]
            raise RequestError(f"{_where(tag)} is not closed: add </{tag['name']}> after its text")
        return cls(text if keep else "".join(pieces), tuple(parts))

    @classmethod
    def joined(cls, named: Sequence[tuple[str, str]], text: str = "") -> "PartedText":
        """Join named texts, and then `text`, which is in no part, with blank lines between them.

        Raises RequestError for two parts of the same name.
        """
        _check_names(name for name, _ in named)
        whole = "\n\n".join([*(one for _, one in named), *([text] if text else [])])
        parts, start = [], 0
        for name, one in named:
            parts.append(Part(name, start, start + len(one)))
            start += len(one) + 2
        return cls(whole, tuple(parts))

    @property
    def runs(self) -> list[Part]:
        """Return the whole text as adjacent stretches, each named after the innermost part that contains it.

        A part that contains another one becomes several stretches. White space after a stretch belongs to it.
        """
        owners = np.full(len(self.text) + 1, -1)
        for number, part in enumerate(self.parts):
            owners[part.start : part.end] = number
        starts = (np.flatnonzero(np.diff(owners)) + 1).tolist()
        return [
            Part(
                self.rest if (number := owners[_after_space(self.text, start)]) < 0 else self.parts[number].name,
                start,
                end,
            )
            for start, end in _cut(self.text, (_after_space(self.text, start) for start in starts))
        ]

    def units(self, kind: str) -> list[Part]:
        """Return the whole text as adjacent units of a kind: "line", "sentence" or "part".

        Lines and sentences are named after the innermost part that contains them, and end where it ends.
        """
        if kind == "part":
            return self.runs
        cut = {"line": lines, "sentence": sentences}[kind]
        return [
            Part(run.name, run.start + start, run.start + end)
            for run in self.runs
            for start, end in cut(self.text[run.start : run.end])
        ]


def numbered(names: Iterable[str]) -> list[str]:
    """Number names that repeat: "user", "user 2"."""
    counts = Counter[str]()
    found = []
    for name in names:
        counts[name] += 1
        found.append(f"{name} {counts[name]}" if counts[name] > 1 else name)
    return found


def _names_of(tags: Sequence[re.Match[str]]) -> list[str]:
    """Return the names of the parts that these tags open; closing tags have none.

    Raises RequestError for two parts of the same name.
    """
    values = [_NAMED.search(tag["more"]) for tag in tags]
    given = [
        f"{tag['name']} {value['value'].strip(_QUOTES)}" if value else ""
        for tag, value in zip(tags, values, strict=True)
    ]
    counted = iter(
        numbered(tag["name"] for tag, name in zip(tags, given, strict=True) if not tag["closes"] and not name)
    )
    names = ["" if tag["closes"] else name or next(counted) for tag, name in zip(tags, given, strict=True)]
    _check_names(filter(None, names))
    return names


def _check_names(names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RequestError(f"two parts are named {quoted(twice[0])}: give each part a different name")


def _wrong_order(tag: re.Match[str], open_tags: Sequence[re.Match[str]]) -> str:
    if all(one["name"] != tag["name"] for one in open_tags):
        return f"{_where(tag)} closes no part: delete it, or add <{tag['name']}> before it"
    inner = open_tags[-1]
    return f"{_where(tag)} is inside {_where(inner)}: close <{inner['name']}> first, since parts can't overlap"


def _where(tag: re.Match[str]) -> str:
    line = tag.string.count("\n", 0, tag.start()) + 1
    return f"{printable(shorten(tag[0]))} on line {line}"


def unit_tokens(tokens: Tokens, spans: Iterable[Sequence[int]], segment: int = 0) -> list[list[int]]:
    """Return the indices of the tokens in each span (start, end) of characters of a text.

    A token belongs to the span of its first character that is not white space, or else of its first character. So every
    token is in exactly one of several spans that cover the text. Added special tokens, tokens of another segment, and
    generated tokens, whose offsets are unknown, are in none. Raises RequestError for tokens without offsets, as in a
    record of another program.
    """
    places, begins = [], []
    text = "".join(one for one, part in zip(tokens.written, tokens.segments, strict=True) if part == segment)
    known = 0
    for place, (start, end) in enumerate(tokens.offsets):
        if (tokens.special[place] and start == end) or tokens.segments[place] != segment or end < known:
            continue
        known = max(known, end)
        inner = text[start:end]
        places.append(place)
        begins.append(start + (len(inner) - len(inner.lstrip()) if inner.strip() else 0))
    if places and not known:
        raise RequestError(
            "the positions of these tokens in their text are unknown: run the model on the text, give an "
            "encoder-decoder's output with --target, or use a model with a tokenizer.json"
        )
    order = np.argsort(begins, kind="stable")
    sorted_begins = np.asarray(begins)[order]
    found = []
    for start, end, *_ in spans:
        low, high = np.searchsorted(sorted_begins, [start, end])
        found.append(sorted(places[one] for one in order[low:high]))
    return found
