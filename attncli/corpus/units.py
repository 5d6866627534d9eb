"""What is a query and a key in statistics: the tokens of a run's windows, or their words."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.statistics import LINEAR, factors
from attncli.corpus.packed import Run
from attncli.text.windows import Window


class Units:
    """A run's windows as their queries are counted: `windows`, of tokens or of words, whose maps are padded to the
    `longest`.
    """

    def __init__(self, run: Run, words: bool, device: torch.device) -> None:
        self.run = run
        self.windows: Sequence[Window] = [window.in_words for window in run.windows] if words else run.windows
        self.longest = max(map(len, self.windows))
        self.device = device
        self.word_of: Tensor | None = None  # [window, token]: the place of its word among the words
        if words:
            tokens = np.arange(run.length)
            places = [np.searchsorted(window.starts, tokens, side="right") - 1 for window in run.windows]
            self.word_of = torch.from_numpy(np.stack(places)).to(device)

    def blocks(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[slice]:
        """The run's queries, or those from start to stop, so many at once; of words, whole ones.

        Several windows are one block.
        """
        stop = self.run.length if stop is None else stop
        ends = np.arange(self.run.length + 1) if self.word_of is None else self.run.windows[0].starts
        ends = np.append(ends[(ends > start) & (ends < stop)], stop)
        while start < stop:
            fitting = ends[(ends > start) & (ends <= start + size)]
            end = int(fitting[-1] if len(fitting) else ends[ends > start][0])
            yield slice(start, end)
            start = end

    def rows(self, block: slice) -> slice:
        """The places, among tokens or words, of a block of queries."""
        if self.word_of is None:
            return block
        if self.run.whole:
            return slice(0, self.longest)
        return slice(int(self.word_of[0, block.start]), int(self.word_of[0, block.stop - 1]) + 1)

    def factors(self, block: slice) -> Tensor:
        """What a block's weights are multiplied with, in all windows: `[window, figure, query, key]`."""
        rows = self.rows(block)
        made = np.zeros((len(self.windows), len(LINEAR), rows.stop - rows.start, self.longest), dtype=np.float32)
        for place, window in enumerate(self.windows):
            stop = min(rows.stop, len(window))
            made[place, :, : stop - rows.start, : len(window)] = factors(window, rows.start, stop)
        return torch.from_numpy(made).to(self.device)

    def counts(self, block: slice) -> Tensor:
        """Whether each query of a block counts: bool `[window, 1, query]`."""
        rows = self.rows(block)
        places = np.arange(rows.start, rows.stop)
        made = [(window.counted[0] <= places) & (places < window.counted[1]) for window in self.windows]
        return torch.from_numpy(np.stack(made)[:, None]).to(self.device)

    def merged(self, weights: Tensor, block: slice) -> Tensor:
        """Between words: `[window, head, query, key]`, of a block of queries, as `attncli.analysis.words.merge_words`.

        Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1).
        """
        if self.word_of is None:
            return weights
        rows = self.rows(block)
        keys = self.word_of[:, None, None, :].expand_as(weights)
        to_words = weights.new_zeros(*weights.shape[:3], self.longest).scatter_add_(-1, keys, weights)
        from_word = self.word_of[:, block] - rows.start  # [window, query]
        queries = from_word[:, None, :, None].expand_as(to_words)
        size = weights.shape[0], weights.shape[1], rows.stop - rows.start, self.longest
        between = weights.new_zeros(size).scatter_add_(-2, queries, to_words)
        ones = torch.ones_like(from_word, dtype=weights.dtype)
        pieces = weights.new_zeros(len(weights), size[2]).scatter_add_(-1, from_word, ones)
        return between.div_(pieces.clamp_min_(1)[:, None, :, None])
