"""Windows of many texts as batches: which of them go through the network together (`attncli.models.rows`)."""

import random
from collections.abc import Iterable, Iterator

from attncli.text.windows import Window

TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # what is sorted by length together; all of it is in memory at once


def groups(texts: Iterable[list[Window]], first: int = 0) -> Iterator[tuple[int, list[Window]]]:
    """The windows of so many texts as are sorted together, and how many texts these are; some may have no window.

    first: how many are in the first group, where that was begun before.
    """
    group: list[Window] = []
    count = tokens = 0
    for windows in texts:
        group += windows
        count, tokens = count + 1, tokens + sum(map(len, windows))
        full = count == TEXTS_SORTED or tokens >= TOKENS_SORTED
        if (count == first) if first else full:
            yield count, group
            group, count, tokens, first = [], 0, 0, 0
    if count:
        yield count, group


def batches(group: Iterable[Window], most_tokens: int) -> list[list[Window]]:
    """Windows of near length, as many together as have no more tokens, and one at the least.

    The batches are shuffled (seed 0): who interrupts a group has not only its short texts.
    """
    made: list[list[Window]] = []
    room = 0
    for window in sorted(group, key=len):
        if len(window) > room:
            made.append([])
            room = max(most_tokens, len(window))
        made[-1].append(window)
        room -= len(window)
    random.Random(0).shuffle(made)
    return made
