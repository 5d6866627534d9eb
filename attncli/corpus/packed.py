"""Windows of many texts as batches: which of them go through the network together (`attncli.models.rows`)."""

import random
from collections.abc import Iterable, Iterator, Sequence

from attncli.models import rows
from attncli.text.windows import Window

TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # what is sorted by length together; all of it is in memory at once


def groups(texts: Iterable[Iterable[Window]]) -> Iterator[list[Window]]:
    """The windows that are sorted together. A text of TOKENS_SORTED tokens or more is in groups of its own."""
    group: list[Window] = []
    count = tokens = 0
    for windows in texts:
        left = iter(windows)
        part, size = some(left)
        long = size >= TOKENS_SORTED
        if not long:
            group += part
            count, tokens = count + 1, tokens + size
        if group and (long or count == TEXTS_SORTED or tokens >= TOKENS_SORTED):
            yield group
            group, count, tokens = [], 0, 0
        while long and part:
            yield part
            part, _ = some(left)
    if group:
        yield group


def some(windows: Iterator[Window]) -> tuple[list[Window], int]:
    """The next windows of a text, up to TOKENS_SORTED tokens or its end, and how many tokens they have."""
    part: list[Window] = []
    size = 0
    while size < TOKENS_SORTED and (window := next(windows, None)) is not None:
        part.append(window)
        size += len(window)
    return part, size


def batches(group: Sequence[Window], most_tokens: int) -> list[list[Window]]:
    """Windows of near length, as `attncli.models.rows.batches` has them.

    They are shuffled (seed 0): who interrupts a group has not only its short texts.
    """
    made = [[group[number] for number in numbers] for numbers in rows.batches(group, most_tokens)]
    random.Random(0).shuffle(made)
    return made
