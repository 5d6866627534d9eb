"""Windows of many texts as batches without [PAD]: their tokens lie one after another, as rows of one matrix.

What is done token by token (projections, the feed-forward part) is done to all rows at once; attention, to a run of
windows of one length at a time, or to some queries of a single long one.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from attncli.text.windows import Window

TEXTS_SORTED, TOKENS_SORTED = 1024, 65536  # what is sorted by length together; all of it is in memory at once


@dataclass(frozen=True)
class Run:
    """Neighbours of one length: which of the batch's windows, which of its rows, and how many of their queries are
    attended from at once: all of them, unless it is one long window.
    """

    windows: Sequence[Window]
    places: slice
    rows: slice
    block: int

    @property
    def length(self) -> int:
        return len(self.windows[0])

    @property
    def whole(self) -> bool:
        return self.block >= self.length

    def texts(self, rows: Tensor) -> Tensor:
        """Its part of the batch's `[head, row, head_dim]`, as `[window, head, token, head_dim]`."""
        return rows[:, self.rows].unflatten(1, (len(self.windows), self.length)).transpose(0, 1)


def groups(texts: Iterable[list[Window]]) -> Iterator[list[Window]]:
    """The windows of so many texts as are sorted together."""
    group: list[Window] = []
    count = tokens = 0
    for windows in texts:
        group += windows
        count, tokens = count + 1, tokens + sum(map(len, windows))
        if count == TEXTS_SORTED or tokens >= TOKENS_SORTED:
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


def runs(batch: Sequence[Window], heads: int, most_weights: int) -> Iterator[Run]:
    """The runs of a batch, each with no more weights in a layer's `heads` than that, or one window by blocks."""
    place = row = 0
    for length, same in groupby(batch, key=len):
        windows = list(same)
        together = max(1, most_weights // (heads * length**2))
        block = min(length, max(1, most_weights // (heads * length)))
        for start in range(0, len(windows), together):
            part = windows[start : start + together]
            ends = place + len(part), row + len(part) * length
            yield Run(part, slice(place, ends[0]), slice(row, ends[1]), block)
            place, row = ends
