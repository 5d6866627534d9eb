"""How far something is, for whoever wants to be told: only what does the work knows of how many steps it is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

# Is told how many steps there are and what they are called, and gives what is called after each.
Progress = Callable[[int, str], AbstractContextManager[Callable[[], None]]]


@contextmanager
def silent(total: int, what: str) -> Iterator[Callable[[], None]]:
    """Tells nobody."""
    yield lambda: None
