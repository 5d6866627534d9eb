"""A corpus: many texts read one by one from files, cut into windows that fit the model. No text is kept.

What stands where a text should be and is none is refused with its line's number, or told of and skipped.
"""

import json
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from attncli.analysis.words import word_groups, word_texts
from attncli.errors import Notice, RequestError
from attncli.text import Tokenizer, Tokens, check_text, shorten, tokens_of

STDIN = "-"
NO_WORD = -1


class Line(NamedTuple):
    """A text as it stands in a file: the number of its (first) line, counted from 1."""

    file: str
    number: int
    text: str

    @property
    def place(self) -> str:
        return f"{shown(self.file)}, line {self.number}"


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

    @cached_property
    def queries(self) -> int:
        """How many tokens count."""
        return self.counted[1] - self.counted[0]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where words begin."""
        return word_starts(self.place)

    @cached_property
    def words(self) -> "Window":
        """The window with words for tokens. A word counts where its first piece does."""
        starts = self.starts
        begin, end = np.searchsorted(starts, self.counted).tolist()
        return Window(
            self.text,
            self.of,
            (begin, end),
            some_tokens(self.tokens, starts.tolist()),
            self.word[starts],
            np.arange(len(starts)),
            self.punctuation[starts],
        )


# --- reading --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How texts stand in their files.

    paragraphs: a text goes on until an empty line, instead of to the end of its line.
    field: each line is a JSON object, and this field of it is the text.
    skip_bad: a line that holds no text is told of in a Notice and passed over.
    limit: how many texts to read at the most.
    """

    paragraphs: bool = False
    field: str | None = None
    skip_bad: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raises RequestError when texts can't be both."""
        if self.paragraphs and self.field is not None:
            raise RequestError("--jsonl has one text a line, --paragraphs several lines a text: which one is meant?")

    def texts(self, files: Sequence[str]) -> Iterator[Line]:
        """The texts of all files, in their order; "-" is stdin. Empty lines are no texts.

        Raises RequestError, with file and line, for a file that can't be read, a line that is not UTF-8, and one that
        is no JSON object with that field.
        """
        every = (paragraphs(self.lines(file)) if self.paragraphs else self.lines(file) for file in files)
        yield from islice(chain.from_iterable(every), self.limit)

    def lines(self, file: str) -> Iterator[Line]:
        """Line by line; an empty one is there as "" only where it parts paragraphs."""
        for number, raw in enumerate(raw_lines(file), 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if text and self.field is not None:
                    text = field_of(text, self.field)
            except UnicodeDecodeError as error:
                self.bad(Line(file, number, ""), f"not UTF-8 at byte {error.start}")
                continue
            except ValueError as error:
                self.bad(Line(file, number, ""), str(error))
                continue
            if text or self.paragraphs:
                yield Line(file, number, text)

    def windows(
        self, files: Sequence[str], tokenizer: Tokenizer, stride: int | None, wanted: Callable[[int], bool]
    ) -> "Iterator[list[Window]]":
        """The windows of each text whose number in the corpus is `wanted`; see `windows` for how it is cut.

        Raises RequestError as `texts` and `windows` do.
        """
        for number, line in enumerate(self.texts(files)):
            if wanted(number):
                try:
                    cut = windows(number, line.text, tokenizer, stride)
                except ValueError as error:
                    self.bad(line, str(error))
                else:
                    yield cut

    def bad(self, line: Line, why: str) -> None:
        """Raises RequestError for a line that holds no text, or tells of it."""
        if not self.skip_bad:
            raise RequestError(f"{line.place}: {why}: --skip-bad passes such lines over")
        warnings.warn(f"skipped {line.place}: {why}", Notice, stacklevel=2)


def raw_lines(file: str) -> Iterator[bytes]:
    """The lines of a file, which is never there as a whole. Raises RequestError when it can't be read."""
    try:
        if file == STDIN:
            yield from sys.stdin.buffer
        else:
            with open_file(file) as opened:
                yield from opened
    except (OSError, ValueError) as error:
        raise RequestError(f"can't read {shown(file)}: {getattr(error, 'strerror', None) or error}") from error


def open_file(file: str) -> BinaryIO:
    return Path(file).open("rb")


def shown(file: str) -> str:
    return "stdin" if file == STDIN else file


def paragraphs(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines up to an empty one, or to the end of the file, put together with spaces."""
    parts: list[Line] = []
    for line in lines:
        if line.text:
            parts.append(line)
        elif parts:
            yield joined(parts)
            parts = []
    if parts:
        yield joined(parts)


def joined(parts: Sequence[Line]) -> Line:
    return parts[0]._replace(text=" ".join(line.text for line in parts))


def field_of(line: str, field: str) -> str:
    """The text in a JSON object. Raises ValueError, with what is wrong, where there is none."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(found, dict) or field not in found:
        raise ValueError(f"no JSON object with a field {field!r}")
    if not isinstance(found[field], str):
        raise ValueError(f"its field {field!r} is no text")
    return found[field].strip()


# --- cutting --------------------------------------------------------------------------------------------


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
    words, places, marks = word_numbers(tokens)
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
        cut.append(
            Window(text, len(starts), counted, some_tokens(tokens, part), words[part], places[part], marks[part])
        )
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
    tokens = tokens_of(tokenizer.backend.encode(content))
    if all(tokens.special):
        raise ValueError(f"{shorten(content)!r} has nothing in it that the tokenizer keeps")
    if max(tokens.ids) >= tokenizer.vocab_size:
        raise RequestError(
            f"the tokenizer gives token number {max(tokens.ids)}, and the model's vocabulary has "
            f"{tokenizer.vocab_size}: this tokenizer belongs to another model"
        )
    return tokens


def some_tokens(tokens: Tokens, part: Sequence[int]) -> Tokens:
    if len(part) == len(tokens):
        return tokens
    return Tokens(**{name: [values[place] for place in part] for name, values in vars(tokens).items()})


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


def is_punctuation(character: str) -> bool:
    """As BERT's tokenizer has it (Devlin et al. 2019): Unicode's punctuation, and every mark of ASCII ("$", "+")."""
    if character.isascii():
        return not character.isalnum() and character.isprintable() and not character.isspace()
    return unicodedata.category(character).startswith("P")
