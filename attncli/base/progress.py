"""Progress: code that works reports its steps, and a display decides how to show them.

with progress(len(edges), "edges") as advance: ...     around slow work
with showing(bar): ...                                 around that, in code with a terminal
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")


class Advance(Protocol):
    """Called after each step. `of` and `text` replace the number of steps and the text beside the bar."""

    def __call__(self, steps: int = 1, of: int | None = None, text: str | None = None) -> None: ...


# Called with the number of steps (None if unknown) and their name.
Progress = Callable[[int | None, str], AbstractContextManager[Advance]]


@contextmanager
def silent(total: int | None, what: str) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda steps=1, of=None, text=None: None


_DISPLAY: ContextVar[Progress] = ContextVar("display", default=silent)


@contextmanager
def showing(display: Progress) -> Iterator[None]:
    """Show the progress of all work in the block on this display."""
    before = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(before)


def progress(total: int | None, what: str) -> AbstractContextManager[Advance]:
    """Show the progress of `total` steps (None if unknown) of this name, if there is a display."""
    return _DISPLAY.get()(total, what)


def counted(things: Iterable[T], total: int, name: str) -> Iterator[T]:
    """Yield the things, and show a progress of `total` steps that advances after each."""
    with progress(total, name) as advance:
        for thing in things:
            yield thing
            advance()


SECONDS = 30.0  # between two lines


class Lines:
    """Progress as lines, for output that is not a terminal: at most one line every SECONDS in a command.

    say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.last = say, time.monotonic()

    @contextmanager
    def __call__(self, total: int | None, what: str) -> Iterator[Advance]:
        done = 0

        def advance(steps: int = 1, of: int | None = None, text: str | None = None) -> None:
            nonlocal done
            done += steps
            now = time.monotonic()
            if now - self.last < SECONDS:
                return
            self.last, most = now, of or total
            self.say(text or f"{what}: {done:,}" + (f" of {most:,}" if most else ""))

        yield advance
