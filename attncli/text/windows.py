"""A text cut into windows that fit a model, in whole words where that is possible."""

import unicodedata
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from attncli.base.errors import RequestError
from attncli.base.printable import quoted
from attncli.text.tokenizer import Tokenizer
from attncli.text.tokens import Tokens, check_text, tokens_of
from attncli.text.words import word_groups, word_texts

NO_WORD = -1


@dataclass(frozen=True)
class Window:
    """As much of a text as goes through the network at once.

    text: the number of its text in the corpus, from 0; of: how many windows that text has.
    counted: the tokens [start, stop) that count as queries here. Over the windows of a text they are each of its
    tokens once, [CLS] and [SEP] among them.
    word: int `[token]`, the same number for the same word wherever it stands; -1 where there is no word, which is at
    special tokens and punctuation. place: int `[token]`, a number for each word where it stands.
    """

    text: int
    of: int
    counted: tuple[int, int]
    tokens: Tokens
    word: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    punctuation: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def whole(cls, tokens: Tokens, text: int = 0, of: int = 1) -> "Window":
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


def windows(text: int, content: str, tokenizer: Tokenizer, stride: int | None = None) -> list[Window]:
    """A text as one window, or, where it is longer than the model has room for, as several.

    Each has the special tokens of the whole at its ends. They start `stride` tokens of the text after each other, by
    default side by side, or a little earlier, where a word begins; the last is moved back so that it is full. Where
    two overlap, each counts its half of what they share, in whole words: every token counts where it has most of the
    text around it. (A word that has more pieces than there is room for is cut.)

    Raises RequestError when the stride leaves tokens out, and ValueError, with what is wrong, when the text has
    nothing in it that the tokenizer keeps.
    """
    tokens = encode(content, tokenizer)
    numbers, places, marks = word_numbers(tokens)
    total = len(tokens)
    head = tokens.special.index(False)  # special tokens before the text, and after it
    tail = tokens.special[::-1].index(False)
    room = tokenizer.max_tokens - head - tail
    step = room if stride is None else stride
    if not 1 <= step <= room:
        raise RequestError(f"--stride {step} is out of range: 1 to {room} tokens, or some would be left out")
    begins = word_starts(places)
    starts = [head]
    while starts[-1] + room < total - tail:
        following = last_of(begins, starts[-1] + 1, starts[-1] + step)
        rest = total - tail - room  # from here on the rest fits
        starts.append(following if following < rest else first_of(begins, rest, following))
    # From the middle of what one window shares with the one before it.
    shared = [(after, (after + before + room) // 2) for before, after in pairwise(starts)]
    borders = [0, *(last_of(begins, after, middle) for after, middle in shared), total]
    cut = []
    for number, start in enumerate(starts):
        stop = min(start + room, total - tail)
        part = [*range(head), *range(start, stop), *range(total - tail, total)]
        begin, end = (border - start + head for border in borders[number : number + 2])
        counted = 0 if number == 0 else begin, len(part) if number == len(starts) - 1 else end
        cut.append(Window(text, len(starts), counted, tokens.take(part), numbers[part], places[part], marks[part]))
    return cut


def word_starts(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where words begin, from the number of each token's word where it stands."""
    return np.flatnonzero(np.diff(places, prepend=NO_WORD))


def last_of(begins: npt.NDArray[np.int64], low: int, high: int) -> int:
    """The last word in low to high begins here; high where none does."""
    place = int(np.searchsorted(begins, high, side="right")) - 1
    return int(begins[place]) if place >= 0 and begins[place] >= low else high


def first_of(begins: npt.NDArray[np.int64], low: int, high: int) -> int:
    """The first word in low to high begins here; low where none does."""
    place = int(np.searchsorted(begins, low))
    return int(begins[place]) if place < len(begins) and begins[place] <= high else low


def encode(content: str, tokenizer: Tokenizer) -> Tokens:
    """All tokens of a text, however long. Raises as `windows` does."""
    try:
        check_text(content)
    except RequestError as error:
        raise ValueError(str(error)) from error
    tokens = tokens_of(tokenizer.backend.encode(content), tokenizer.notation, content)
    if all(tokens.special):
        raise ValueError(f"{quoted(content)} has nothing in it that the tokenizer keeps")
    if max(tokens.ids) >= tokenizer.vocab_size:
        raise RequestError(
            f"the tokenizer gives token number {max(tokens.ids)}, and the model's vocabulary has "
            f"{tokenizer.vocab_size}: this tokenizer belongs to another model"
        )
    return tokens


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
