"""Which of the texts of a corpus are read: the first so many, a share by chance, both."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from attncli.base.errors import Notice, RequestError
from attncli.corpus.inputs.files import BadFile, Input, Piece

Text = TypeVar("Text")


@dataclass(frozen=True, kw_only=True)
class Choosing(ABC):
    """A way of reading texts that takes some of them.

    skip_bad: what should be a text and is none is told of in a Notice and passed over.
    limit: how many to read at the most, of those that are taken.
    sample: the share of the texts that is taken, above 0 and up to 1; None is all of them. Whether a text is depends on
    the seed, its place in its file and its content, and on nothing else.
    """

    skip_bad: bool = False
    limit: int | None = None
    sample: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises RequestError for a share that is none."""
        if self.sample is not None and not 0 < self.sample <= 1:
            raise RequestError(f"--sample {self.sample:g}: a share of the texts, above 0 and up to 1")

    @property
    def asked(self) -> dict[str, Any]:
        """What tells it from another way of reading, by the names that options have. What is bad is no part of that:
        who is stopped by a bad line goes on without it.
        """
        return {"--limit": self.limit, "--sample": self.sample, "--seed": None if self.sample is None else self.seed}

    def check(self, inputs: Sequence[Input]) -> None:
        """Raises RequestError for what has an effect on none of these files: nothing of what all readings share."""
        return

    def takes(self, place: int, content: str) -> bool:
        """Whether the text of that content there is one of the sample."""
        if self.sample is None:
            return True
        drawn = blake2b(f"{self.seed} {place} ".encode() + content.encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(drawn.digest(), "big") < self.sample * 2**64

    def first(self, texts: Iterable[Text]) -> Iterator[Text]:
        """As many as are to be read."""
        return islice(texts, self.limit)

    @abstractmethod
    def places(self, piece: Piece) -> Iterator[int]:
        """Where in its file each text of a piece stands that is taken, whatever the limit."""


def end_of(reading: Choosing, inputs: Sequence[Input]) -> tuple[int, int] | None:
    """Where a plan of these files has to end so that it has the first `limit` texts: the number of a file, and a place
    in it. None where they have no more than that, or are a stream, which can't be read twice and has one piece.

    Raises RequestError as reading does, and for a stream among other files.
    """
    if reading.limit is None or (len(inputs) == 1 and inputs[0].is_stream):
        return None
    left = reading.limit
    with catch_warnings():
        simplefilter("ignore", Notice)  # who reads the texts is told
        for number, one in enumerate(inputs):
            if one.is_stream:
                raise RequestError(f"--limit reads files twice, and {one.shown} can be read once: name it alone")
            count = 0
            try:
                for count, place in enumerate(islice(reading.places(Piece(one)), left), 1):
                    if count == left:
                        return number, place + 1
            except BadFile:
                if not reading.skip_bad:
                    raise
                count = 0
            left -= count
    return None
