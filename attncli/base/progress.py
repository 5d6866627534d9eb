"""Progress: what does the work knows how many steps it has; what shows it decides how."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Advance(Protocol):
    """Is called after each step; `of` and `text` replace the number of steps and the words beside the bar."""

    def __call__(self, steps: int = 1, of: int | None = None, text: str | None = None) -> None: ...


# Is given the number of steps, None where nobody knows it, and their name.
Progress = Callable[[int | None, str], AbstractContextManager[Advance]]


@contextmanager
def silent(total: int | None, what: str) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda steps=1, of=None, text=None: None


def counted(things: Iterable[T], total: int, name: str, progress: Progress) -> Iterator[T]:
    """Yield the things, and advance a progress of so many steps after each."""
    with progress(total, name) as advance:
        for thing in things:
            yield thing
            advance()
