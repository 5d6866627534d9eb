"""Split a text into windows that fit a model, between words if possible."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attncli.base.errors import RequestError
from attncli.text.tokenizer import Tokenizer, between
from attncli.text.tokens import Tokens, is_no_word, is_punctuation, word_groups, word_texts

NO_WORD = -1


@dataclass(frozen=True)
class TextWindow:
    """A part of a text that the network processes in one run.

    text: the index of its text in the corpus. of: the number of windows of that text, known only in the last one.
    counted: the tokens [start, stop) that count as queries here. Over all windows of a text, each of its tokens counts
    once, including [CLS] and [SEP]. word: int `[token]`, the same number for every occurrence of a word; -1 at special
    tokens and punctuation. place: int `[token]`, a different number for each occurrence of a word.
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
    def uncut(cls, tokens: Tokens, text: int = 0, of: int | None = 1) -> "TextWindow":
        """Return a window in which every token counts."""
        return cls(text, of, (0, len(tokens)), tokens, *word_numbers(tokens))

    @cached_property
    def queries(self) -> int:
        """Return the number of tokens that count."""
        return self.counted[1] - self.counted[0]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Return the indices of tokens that begin words."""
        return np.flatnonzero(np.diff(self.place, prepend=NO_WORD))

    @cached_property
    def in_words(self) -> "TextWindow":
        """Return the window with words as tokens. A word counts if its first piece counts."""
        starts = self.starts
        begin, end = np.searchsorted(starts, self.counted).tolist()
        return TextWindow(
            self.text,
            self.of,
            (begin, end),
            self.tokens.take(starts.tolist()),
            self.word[starts],
            np.arange(len(starts)),
            self.punctuation[starts],
        )


def windows(text: int, content: str, tokenizer: Tokenizer, stride: int | None = None) -> Iterator[TextWindow]:
    """Yield a text as one window, or as several consecutive ones if it exceeds the model's limit.

    Each window has the special tokens of the whole text at its ends. Windows start every `stride` tokens of the text,
    or slightly earlier, at the beginning of a word. By default they do not overlap. The last one is moved back so that
    it is full. If two windows overlap, each counts its half of the shared tokens, in whole words, so that every token
    counts where it has most context. (A word with more pieces than fit into a window is split.)

    Raises RequestError if the stride would skip tokens, and as `Tokenizer.read` does.
    """
    body = Body(tokenizer.read(content))
    room = tokenizer.max_tokens - len(body.head) - len(body.tail)
    step = room if stride is None else stride
    if not 1 <= step <= room:
        raise RequestError(f"--stride {step} must be from 1 to {room}: a larger stride skips tokens")
    start = border = number = 0
    while (known := len(body.tokens)) > start + room:
        number += 1
        following = body.last_word(start + 1, start + step)
        if known <= following + room:
            following = body.first_word(known - room, following)  # the rest fits from here
        middle = body.last_word(following, (following + start + room) // 2)  # the middle of the shared tokens
        yield body.window(text, (start, start + room), (border, middle))
        start, border = following, middle
    yield body.window(text, (start, known), (border, known), number + 1)


class Body:
    """The tokens of a text between its special tokens, which are its head and tail."""

    def __init__(self, tokens: Tokens) -> None:
        places = between(tokens)
        self.head = tokens.take(range(places.start))
        self.tail = tokens.take(range(places.stop, len(tokens)))
        self.tokens = tokens.take(places)

    def begins_word(self, number: int) -> bool:
        words = self.tokens.words
        return words[number] is None or words[number] != words[number - 1]

    def last_word(self, low: int, high: int) -> int:
        """Return the last index from low to high where a word begins; high if there is none."""
        return next((number for number in range(high, low - 1, -1) if self.begins_word(number)), high)

    def first_word(self, low: int, high: int) -> int:
        """Return the first index from low to high where a word begins; low if there is none."""
        return next((number for number in range(low, high + 1) if self.begins_word(number)), low)

    def window(self, text: int, shown: tuple[int, int], counted: tuple[int, int], of: int | None = None) -> TextWindow:
        """Return the window of the tokens [start, stop) between the special tokens. These count in the first and last
        window.

        Words that the window splits keep the number of the whole word, up to one more window length.
        """
        start, stop = shown
        low, high = max(0, start - (stop - start)), min(len(self.tokens), stop + (stop - start))
        low = next((number for number in range(start, low, -1) if self.begins_word(number)), low)
        high = next((number for number in range(stop, high) if self.begins_word(number)), high)
        inner = self.tokens.take(range(low, high))
        tokens = self.head.joined(inner, self.tail)
        first, last = len(self.head) + start - low, len(self.head) + stop - low
        inside = [*range(len(self.head)), *range(first, last), *range(len(self.head) + high - low, len(tokens))]
        begin = 0 if start == 0 else counted[0] - start + len(self.head)
        end = len(inside) if of is not None else counted[1] - start + len(self.head)
        word, place, marks = word_numbers(tokens)
        return TextWindow(text, of, (begin, end), tokens.take(inside), word[inside], place[inside], marks[inside])


def word_numbers(
    tokens: Tokens,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return `word`, `place` and `punctuation` of a window of all these tokens. Words ignore case."""
    numbers: dict[str, int] = {}
    word: list[int] = []
    place: list[int] = []
    marks: list[bool] = []
    groups = word_groups(tokens)
    for here, (group, text) in enumerate(zip(groups, word_texts(tokens, groups), strict=True)):
        special = tokens.special[group[0]]
        mark = not special and all(map(is_punctuation, text))
        number = NO_WORD if special or is_no_word(text) else numbers.setdefault(text.casefold(), len(numbers))
        word += [number] * len(group)
        place += [here] * len(group)
        marks += [mark] * len(group)
    return np.array(word), np.array(place), np.array(marks)


def word_places(tokens: Tokens) -> npt.NDArray[np.int64]:
    """Return int `[token]`: the number of each token's word occurrence; -1 at special tokens, punctuation and white
    space.
    """
    word, place, _ = word_numbers(tokens)
    return np.where((word == NO_WORD) | [is_no_word(shown) for shown in tokens.shown], NO_WORD, place)
