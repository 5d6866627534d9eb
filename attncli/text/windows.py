"""A text cut into windows that fit a model, in whole words where that is possible."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attncli.base.errors import RequestError
from attncli.text.tokenizer import Tokenizer, between
from attncli.text.tokens import Tokens, word_groups, word_texts

NO_WORD = -1
FORGOTTEN = 2**13  # tokens that a long text is done with when they are let go of


@dataclass(frozen=True)
class Window:
    """As much of a text as goes through the network at once.

    text: the number of its text in the corpus, from 0; of: how many windows that text has, which its last one says and
    the others don't know.
    counted: the tokens [start, stop) that count as queries here. Over the windows of a text they are each of its
    tokens once, [CLS] and [SEP] among them.
    word: int `[token]`, the same number for the same word wherever it stands; -1 where there is no word, which is at
    special tokens and punctuation. place: int `[token]`, a number for each word where it stands.
    """

    text: int
    of: int | None
    counted: tuple[int, int]
    tokens: Tokens
    word: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    punctuation: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def whole(cls, tokens: Tokens, text: int = 0, of: int | None = 1) -> "Window":
        """One in which every token counts."""
        return cls(text, of, (0, len(tokens)), tokens, *word_numbers(tokens))

    @cached_property
    def queries(self) -> int:
        """How many tokens count."""
        return self.counted[1] - self.counted[0]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where words begin."""
        return word_starts(self.place)

    @cached_property
    def in_words(self) -> "Window":
        """The window with words for tokens. A word counts where its first piece does."""
        starts = self.starts
        begin, end = np.searchsorted(starts, self.counted).tolist()
        return Window(
            self.text,
            self.of,
            (begin, end),
            self.tokens.take(starts.tolist()),
            self.word[starts],
            np.arange(len(starts)),
            self.punctuation[starts],
        )


def windows(text: int, content: str, tokenizer: Tokenizer, stride: int | None = None) -> Iterator[Window]:
    """A text as one window, or, where it is longer than the model has room for, as several, one after the other.

    Each has the special tokens of the whole at its ends. They start `stride` tokens of the text after each other, by
    default side by side, or a little earlier, where a word begins; the last is moved back so that it is full. Where
    two overlap, each counts its half of what they share, in whole words: every token counts where it has most of the
    text around it. (A word that has more pieces than there is room for is cut.)

    Raises RequestError when the stride leaves tokens out, and as `Tokenizer.stretches` does.
    """
    body = Body(tokenizer.stretches(content))
    room = tokenizer.max_tokens - len(body.head) - len(body.tail)
    step = room if stride is None else stride
    if not 1 <= step <= room:
        raise RequestError(f"--stride {step} is out of range: 1 to {room} tokens, or some would be left out")
    start = border = number = 0
    while (known := body.reach(start + 2 * room + 1)) > start + room:
        number += 1
        following = body.last_word(start + 1, start + step)
        if known <= following + room:
            following = body.first_word(known - room, following)  # from there on the rest fits
        middle = body.last_word(following, (following + start + room) // 2)  # of what the two share
        yield body.window(text, (start, start + room), (border, middle))
        start, border = following, middle
        body.forget(start - room)
    yield body.window(text, (start, known), (border, known), number + 1)


class Body:
    """The tokens of a text between its special ones, by their numbers, as far as they are needed at a time.

    head, tail: the special tokens. known: how many there are so far, or are at all.
    """

    def __init__(self, stretches: Iterator[Tokens]) -> None:
        self.stretches = stretches
        tokens = next(stretches)
        places = between(tokens)
        self.head = tokens.take(range(places.start))
        self.tail = tokens.take(range(places.stop, len(tokens)))
        self.tokens = tokens.take(places)
        self.first = 0  # number of the first of the tokens

    @property
    def known(self) -> int:
        return self.first + len(self.tokens)

    def reach(self, number: int) -> int:
        """Read on until so many tokens are known, or there are no more. Returns how many that are."""
        while self.known < number:
            tokens = next(self.stretches, None)
            if tokens is None:
                break
            self.tokens = self.tokens.then(tokens.take(between(tokens)))
        return self.known

    def forget(self, number: int) -> None:
        """Those before this one, when they are many."""
        if number - self.first > FORGOTTEN:
            self.tokens = self.tokens.take(range(number - self.first, len(self.tokens)))
            self.first = number

    def begins_word(self, number: int) -> bool:
        place, words = number - self.first, self.tokens.words
        return words[place] is None or words[place] != words[place - 1]

    def last_word(self, low: int, high: int) -> int:
        """The last word in low to high begins here; high where none does."""
        return next((number for number in range(high, low - 1, -1) if self.begins_word(number)), high)

    def first_word(self, low: int, high: int) -> int:
        """The first word in low to high begins here; low where none does."""
        return next((number for number in range(low, high + 1) if self.begins_word(number)), low)

    def window(self, text: int, shown: tuple[int, int], counted: tuple[int, int], of: int | None = None) -> Window:
        """The tokens [start, stop) between the special ones, which count where they are first or last.

        Their words are whole ones, also where the window cuts them (but no further than a window goes).
        """
        start, stop = shown
        low, high = max(self.first, start - (stop - start)), min(self.known, stop + (stop - start))
        low = next((number for number in range(start, low, -1) if self.begins_word(number)), low)
        high = next((number for number in range(stop, high) if self.begins_word(number)), high)
        inner = self.tokens.take(range(low - self.first, high - self.first))
        tokens = self.head.then(inner, self.tail)
        first, last = len(self.head) + start - low, len(self.head) + stop - low
        inside = [*range(len(self.head)), *range(first, last), *range(len(self.head) + high - low, len(tokens))]
        begin = 0 if start == 0 else counted[0] - start + len(self.head)
        end = len(inside) if of is not None else counted[1] - start + len(self.head)
        word, place, marks = word_numbers(tokens)
        return Window(text, of, (begin, end), tokens.take(inside), word[inside], place[inside], marks[inside])


def word_starts(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where words begin, from the number of each token's word where it stands."""
    return np.flatnonzero(np.diff(places, prepend=NO_WORD))


def word_numbers(
    tokens: Tokens,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """`word`, `place` and `punctuation` of a Window of all these tokens. A word is the same in any case."""
    numbers: dict[str, int] = {}
    word: list[int] = []
    place: list[int] = []
    marks: list[bool] = []
    groups = word_groups(tokens)
    for here, (group, text) in enumerate(zip(groups, word_texts(tokens, groups), strict=True)):
        special = tokens.special[group[0]]
        mark = not special and all(map(is_punctuation, text))
        number = NO_WORD if special or mark else numbers.setdefault(text.casefold(), len(numbers))
        word += [number] * len(group)
        place += [here] * len(group)
        marks += [mark] * len(group)
    return np.array(word), np.array(place), np.array(marks)


def word_places(tokens: Tokens) -> npt.NDArray[np.int64]:
    """Int `[token]`: the number of each token's word where it stands; -1 at special tokens and punctuation."""
    word, place, _ = word_numbers(tokens)
    return np.where(word == NO_WORD, NO_WORD, place)


def is_punctuation(character: str) -> bool:
    """As BERT's tokenizer has it (Devlin et al. 2019): Unicode's punctuation, and every mark of ASCII ("$", "+")."""
    if character.isascii():
        return not character.isalnum() and character.isprintable() and not character.isspace()
    return unicodedata.category(character).startswith("P")
