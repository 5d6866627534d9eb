"""What takes over a second shows how far it is: on stderr, on a terminal only."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from attncli.cli import output

T = TypeVar("T")

PATIENCE = 1.0  # seconds until the user is told of what takes long


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[], None]]:
    """A bar that shows itself once it is clear that it will take a while.

    Yields what to call when one more of `total` is done; None: of nobody knows how many, the bar moves to and fro.
    """
    if not output.shows_progress():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    begun = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, visible=False)
        yield lambda: bar.update(task, advance=1, visible=time.monotonic() - begun > PATIENCE)


def one_by_one(things: Iterable[T], total: int) -> Iterator[T]:
    """The same things, one a text, with a bar."""
    with progress(total, "texts") as advance:
        for thing in things:
            yield thing
            advance()
