"""Windows of many texts as batches: which of them go through the network together (`attncli.models.rows`)."""

import random
from collections.abc import Iterable, Iterator, Sequence

from attncli.models import rows
from attncli.text.windows import Window

TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # what is sorted by length together; all of it is in memory at once


def groups(texts: Iterable[Iterable[Window]], first: int = 0) -> Iterator[tuple[int, list[Window]]]:
    """The windows that are sorted together, and how many texts end in them, with or without a window.

    A text of TOKENS_SORTED tokens or more stands alone, in as many groups as it takes.

    first: how many texts are in the first group, where that was begun before.
    """
    group: list[Window] = []
    count = tokens = 0
    for windows in texts:
        left = iter(windows)
        part, size = some(left)
        if size >= TOKENS_SORTED:
            if count:
                yield count, group
            yield from alone(part, left)
            group, count, tokens, first = [], 0, 0, 0
            continue
        group += part
        count, tokens = count + 1, tokens + size
        full = count == TEXTS_SORTED or tokens >= TOKENS_SORTED
        if (count == first) if first else full:
            yield count, group
            group, count, tokens, first = [], 0, 0, 0
    if count:
        yield count, group


def alone(part: list[Window], left: Iterator[Window]) -> Iterator[tuple[int, list[Window]]]:
    """The groups of one long text, which begins with `part`."""
    while part:
        following, _ = some(left)
        yield (0 if following else 1), part
        part = following


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
