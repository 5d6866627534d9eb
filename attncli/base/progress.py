"""Progress: what does the work knows how many steps it has; what shows it decides how."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Is called after each step; `of` and `text` replace the number of steps and the words beside the bar."""

    def __call__(self, steps: int = 1, of: int | None = None, text: str | None = None) -> None: ...


# Is given the number of steps, None where nobody knows it, and their name.
Progress = Callable[[int | None, str], AbstractContextManager[Advance]]


@contextmanager
def silent(total: int | None, what: str) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda steps=1, of=None, text=None: None
