"""Windows of many texts as batches: which of them go through the network together (`attncli.models.rows`)."""

import random
from collections.abc import Iterable, Iterator

from attncli.text.windows import Window

TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # what is sorted by length together; all of it is in memory at once


def groups(texts: Iterable[Iterable[Window]]) -> Iterator[list[Window]]:
    """The windows that are sorted together: those of so many texts, or with so many tokens. A long text may go on in
    the next group.
    """
    group: list[Window] = []
    count = tokens = 0
    for windows in texts:
        for window in windows:
            group.append(window)
            tokens += len(window)
            if tokens >= TOKENS_SORTED:
                yield group
                group, count, tokens = [], 0, 0
        count += 1
        if count >= TEXTS_SORTED and group:
            yield group
            group, count, tokens = [], 0, 0
    if group:
        yield group


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
