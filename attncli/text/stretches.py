"""The tokens of a text of any length, one stretch after the other, as if it had been tokenized at once.

Tokens take some hundred times the room of their characters, so a long text is tokenized in pieces. Each begins a little
before the last one ends. What the end of a piece does to its tokens (a word is cut, a space is taken off or put before
it) shows in the characters that both have: in the middle half of these both must have the same tokens, and there they
are put together, where a word begins if one does. That is exact where no token depends on what is further away than a
quarter of OVERLAP, as where texts are split at spaces; for pairs (Sennrich et al. 2016) within words too, since tokens
are those of the whole if each two neighbours are those of what they stand for. Where the pieces disagree, as in a word
that has no end, the first one is made longer.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from attncli.text.tokens import Tokens, Unreadable

PIECE = 2**16  # characters that are tokenized at once
OVERLAP = 2**11  # characters that are in two pieces
GROWTH = 4  # times as long is a piece that can't be put together with the next one
LONGEST = 2**22  # characters that a piece has at the most

Cut = Callable[[str], Tokens]


@dataclass(frozen=True)
class Piece:
    """A piece of a text, as it is when it is tokenized alone.

    start: its first character. tokens: with the special ones at their ends. Places are among those between them.
    """

    text: str
    start: int
    size: int
    tokens: Tokens

    @classmethod
    def of(cls, text: str, start: int, size: int, cut: Cut) -> "Piece":
        return cls(text, start, size, cut(text[start : start + size]))

    @property
    def stop(self) -> int:
        return min(self.start + self.size, len(self.text))

    @property
    def whole(self) -> bool:
        """Whether the text ends with it."""
        return self.stop == len(self.text)

    @cached_property
    def places(self) -> range:
        """Those of tokens between the special ones."""
        return between(self.tokens)

    def begin(self, place: int) -> int:
        """A token's first character."""
        return self.start + self.tokens.offsets[place][0]

    def end(self, place: int) -> int:
        return self.start + self.tokens.offsets[place][1]

    def within(self, low: int, high: int) -> range:
        """The places of tokens whose characters are all there."""
        first = bisect_left(self.places, low, key=self.begin)
        last = bisect_left(self.places, high + 1, key=self.end)
        return self.places[first : max(first, last)]

    def tail(self) -> int | None:
        """Where the next piece may begin: with a word of this one's, if there is one, or with a token; None where no
        token is late enough.
        """
        late = self.within(self.stop - OVERLAP, self.stop)
        words = self.tokens.words
        begins = (place for place in late if words[place] != words[place - 1])
        place = next(begins, late[0] if late else None)
        return None if place is None or self.begin(place) <= self.start else self.begin(place)


def between(tokens: Tokens) -> range:
    """The places between the special tokens at the ends; none where all are special."""
    if all(tokens.special):
        return range(0)
    return range(tokens.special.index(False), len(tokens) - tokens.special[::-1].index(False))


def stretches(text: str, cut: Cut) -> Iterator[Tokens]:
    """The tokens of a text, cut where its pieces are put together; each stretch has the special tokens of the whole at
    its ends. Offsets and words are those of the whole.

    cut: gives the tokens of a text that is short enough. One of up to PIECE characters is given to it as it is.

    Raises Unreadable where LONGEST characters can't be cut.
    """
    piece, begin, word = Piece.of(text, 0, PIECE, cut), 0, 0
    while not piece.whole:
        seam = find_seam(piece, cut)
        if seam is None:
            piece = longer(piece, cut)
            continue
        following, before, after = seam
        yield moved(piece, begin, before, word)
        word += (piece.tokens.words[before] or 0) - (following.tokens.words[after] or 0)
        piece, begin = following, after
    yield piece.tokens if piece.start == 0 else moved(piece, begin, piece.places.stop, word)


def beginning(text: str, tokens: int, cut: Cut) -> str:
    """So much of a text that its first tokens, so many of them, are those of the whole.

    A text of up to PIECE characters is left as it is. Raises Unreadable as `stretches` does, and where more than
    LONGEST characters would be needed.
    """
    if len(text) <= PIECE:
        return text
    found = 0
    for some in stretches(text, cut):
        end = max(stop for _, stop in some.offsets)
        found += len(between(some))
        if found >= tokens:
            return text[: end + OVERLAP]
        if end > LONGEST:
            raise Unreadable(f"the text has {len(text):,} characters, and {LONGEST:,} are too many already: cut it")
    return text


def find_seam(piece: Piece, cut: Cut) -> tuple[Piece, int, int] | None:
    """The piece that follows, and the place of one and the same token in this piece and in that one."""
    start = piece.tail()
    if start is None:
        return None
    quarter = (piece.stop - start) // 4
    low, high = start + quarter, piece.stop - quarter
    ours = piece.within(low, high)
    if len(ours) < 2:
        return None
    following = Piece.of(piece.text, start, PIECE, cut)
    theirs = following.within(low, high)
    if not alike(piece, ours, following, theirs):
        return None
    words = piece.tokens.words
    same = list(zip(ours, theirs, strict=True))[1:]
    apart = [both for both in same if piece.begin(both[0]) >= piece.end(both[0] - 1)]  # not inside of a character
    begins = [both for both in apart if words[both[0]] != words[both[0] - 1]]
    return next(((following, *both) for both in begins or apart), None)


def alike(one: Piece, ours: range, other: Piece, theirs: range) -> bool:
    """Whether these tokens of two pieces are the same."""
    mine, its = one.tokens.take(ours), other.tokens.take(theirs)
    if mine.ids != its.ids or mine.shown != its.shown:
        return False
    if [one.begin(place) for place in ours] != [other.begin(place) for place in theirs]:
        return False
    if [one.end(place) for place in ours] != [other.end(place) for place in theirs]:
        return False
    return numbered_from_0(mine.words) == numbered_from_0(its.words)


def numbered_from_0(words: list[int | None]) -> list[int | None]:
    first = next((word for word in words if word is not None), 0)
    return [None if word is None else word - first for word in words]


def longer(piece: Piece, cut: Cut) -> Piece:
    """The same, from the same character on. Raises Unreadable when it is too long by then."""
    size = piece.size * GROWTH
    if size > LONGEST:
        raise Unreadable(
            f"from its character {piece.start:,} on the text has no place within {LONGEST:,} characters where it could "
            "be cut: put spaces between its words"
        )
    return Piece.of(piece.text, piece.start, size, cut)


def moved(piece: Piece, first: int, last: int, word: int) -> Tokens:
    """Some of a piece's tokens where they stand in the text, with the special ones at their ends."""
    places = piece.places
    first = max(first, places.start)
    ends = range(places.start), range(places.stop, len(piece.tokens))
    head, body, tail = (piece.tokens.take(part) for part in (ends[0], range(first, last), ends[1]))
    body = replace(
        body,
        offsets=[(piece.start + start, piece.start + stop) for start, stop in body.offsets],
        words=[None if number is None else number + word for number in body.words],
    )
    return head.then(body, tail)
