"""The files of a corpus, and the pieces that they are read in."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from attncli.base.addresses import is_address, said
from attncli.base.errors import RequestError
from attncli.base.printable import printable, shorten
from attncli.text.samples import where_to_find

STDIN = "-"


class BadFile(RequestError):  # noqa: N818  (a request about a file that is bad)
    """A file that can't be read, or not to its end. What was read of it until then is not all that it holds."""


@dataclass(frozen=True)
class Input:
    """A file of a corpus.

    name: as whoever asked for it wrote it; at: where any process finds it, a path from the root or an address.
    size: bytes; of a stream (stdin, a pipe) 0.
    parts: of a table how many rows are read together, part after part; of anything else None.
    stamp: what a file that has not changed has the same again: its size and times, or the tag by which a store tells
    one content from another; "" where there is nothing of the kind.
    digest: of its content, or a store's tag; "" where nobody asked.
    """

    name: str
    at: str
    size: int
    parts: tuple[int, ...] | None = None
    stamp: str = ""
    digest: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether it can be read once only, and in one piece."""
        return self.size == 0 and not self.stamp and not is_address(self.at)

    @property
    def shown(self) -> str:
        """As messages say it."""
        return shown(self.name)


class Piece(NamedTuple):
    """The texts of a file that begin at `start` or later, and before `stop`; None is its end.

    Places are bytes; of a compressed file bytes of what it holds, of a table rows.
    """

    input: Input
    start: int = 0
    stop: int | None = None

    def holds(self, place: int) -> bool:
        """Whether what begins there comes before its end."""
        return self.stop is None or place < self.stop


def whole(inputs: Iterable[Input]) -> list[Piece]:
    """Each file in one piece."""
    return [Piece(one) for one in inputs]


def shown(name: str) -> str:
    return "stdin" if name == STDIN else shorten(printable(name), 150)


@contextmanager
def reading_of(name: str) -> Iterator[None]:
    """Around what reads a file: what goes wrong there is a BadFile that says so."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        raise BadFile(f"can't read {shown(name)}: {said(error)}{where_to_find(name)}") from error
