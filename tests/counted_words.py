"""Work that needs no model: lists the words of a corpus, in their order, and does on the way what a text tells it to.

A text "die" kills the process that reads it, "die once FILE" unless FILE is there, "raise" raises, "wait" waits.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from warnings import warn

from attncli.base.errors import Notice, RequestError
from attncli.corpus.running import Workplace, process_corpus
from attncli.corpus.shards import CorpusSize, Shard, Work
from attncli.corpus.texts import TextFormat
from attncli.models.opening import Opening


@dataclass(frozen=True)
class Words:
    """Sums whose order shows."""

    words: tuple[str, ...] = ()
    texts: int = 0

    def __add__(self, other: "Words") -> "Words":
        return Words(self.words + other.words, self.texts + other.texts)


@dataclass(frozen=True)
class ListedWords(Work[Words]):
    opening: Opening = field(default=Opening("none"))
    options: dict = field(default_factory=dict)
    begins: Callable[[], None] | None = None  # called where the work begins, in the process that does it
    fixed = {"threads": 1}  # noqa: RUF012

    def begin(self, cores: int | None) -> Callable[[Shard], Iterator[Words]]:
        if self.begins is not None:
            self.begins()

        def counts(shard: Shard) -> Iterator[Words]:
            total = Words()
            for line in shard.texts:
                obey(line.text)
                total = total + Words(tuple(line.text.split()), 1)
                yield total

        return counts

    def nothing(self) -> Words:
        return Words()

    def corpus_size(self, total: Words) -> CorpusSize:
        return CorpusSize(total.texts, len(total.words))

    def saved(self, total: Words):
        return {"words": list(total.words), "texts": total.texts}, {}

    def loaded(self, about, arrays) -> Words:
        return Words(tuple(about["words"]), about["texts"])


def words_of(lines: list[str]) -> Words:
    """The sums of these texts."""
    return Words(tuple(word for line in lines for word in line.split()), len(lines))


def list_words(folder: Path, lines: list[str], work: ListedWords = ListedWords(), **where: Any) -> tuple[Words, bool]:
    """Count these texts, from a file in this folder, a shard each, and say whether it was interrupted."""
    (folder / "corpus.txt").write_text("".join(f"{line}\n" for line in lines))
    return process_corpus(
        work, TextFormat().texts([str(folder / "corpus.txt")]), Workplace(**{"shard_bytes": 1, **where})
    )


def obey(text: str) -> None:
    match text.split():
        case ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["die", "once", path] if not Path(path).exists():
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        case ["raise"]:
            raise OverflowError("it was too much")
        case ["refuse"]:
            raise RequestError("this text is refused")
        case ["interrupt"]:
            raise KeyboardInterrupt
        case ["notice"]:
            warn("texts are cut", Notice, stacklevel=2)
        case ["wait"]:
            time.sleep(0.3)
