"""What is a query and a key in statistics: the tokens of a run's windows, or their words."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from attncli.analysis.statistics import EVERY, LINEAR, factors
from attncli.attention import Window as Reach
from attncli.base.arrays import Doubles
from attncli.corpus.sums import Counted, weighted_sums
from attncli.models.block import bands
from attncli.models.rows import LayerMask
from attncli.text.windows import Window


class Units:
    """Some windows of one length as their queries are counted: `windows`, of tokens or of words, whose maps are padded
    to the `longest`.

    block: how many of their queries are attended from at once; all of them, unless it is one long window.
    """

    def __init__(self, windows: Sequence[Window], words: bool, block: int, device: torch.device) -> None:
        self.cut = windows
        self.windows: Sequence[Window] = [window.in_words for window in windows] if words else windows
        self.longest = max(map(len, self.windows))
        self.length = len(windows[0])
        self.block = max(1, block)
        self.device = device
        self.word_of: Tensor | None = None  # [window, token]: the place of its word among the words
        if words:
            tokens = np.arange(self.length)
            places = [np.searchsorted(window.starts, tokens, side="right") - 1 for window in windows]
            self.word_of = torch.from_numpy(np.stack(places)).to(device)

    @property
    def whole(self) -> bool:
        """Whether all queries are one block."""
        return self.block >= self.length

    def blocks(self) -> Iterator[slice]:
        """Their queries, so many at once; of words, whole ones. Several windows are one block."""
        ends = np.arange(self.length + 1) if self.word_of is None else np.append(self.cut[0].starts, self.length)
        start = 0
        while start < self.length:
            fitting = ends[(ends > start) & (ends <= start + self.block)]
            end = self.length if self.whole else int(fitting[-1] if len(fitting) else ends[ends > start][0])
            yield slice(start, end)
            start = end

    def counted(self) -> Iterator[Counted]:
        """The blocks, and what their weights count for."""
        for block in self.blocks():
            yield Counted(block, slice(0, self.length), self.factors(block), self.counts(block))

    def near(self, reach: Reach) -> Iterator[Counted]:
        """The same of the tokens of one long window, in a layer that sees no further than `reach`: without keys that no
        query of a block sees.
        """
        every = slice(0, self.length)
        for queries, keys in bands(reach, every, every):
            yield Counted(queries, keys, self.factors(queries, keys), self.counts(queries))

    def rows(self, block: slice) -> slice:
        """The places, among tokens or words, of a block of queries."""
        if self.word_of is None:
            return block
        if self.whole:
            return slice(0, self.longest)
        return slice(int(self.word_of[0, block.start]), int(self.word_of[0, block.stop - 1]) + 1)

    def factors(self, block: slice, keys: slice = EVERY) -> Tensor:
        """What a block's weights are multiplied with, in all windows: `[window, figure, query, key]`; of a single one,
        for these keys.
        """
        rows = self.rows(block)
        if len(self.windows) == 1:
            return torch.from_numpy(factors(self.windows[0], rows.start, rows.stop, keys))[None].to(self.device)
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

    def alike(self, mask: LayerMask | None, blocks: Iterable[Counted]) -> tuple[Doubles, Doubles]:
        """The sums over each window's queries of what a head has that looks at everything alike: its entropy, which is
        ln(how many keys the query may attend to), `[window]`, and its figures in LINEAR, `[window, figure]`.

        mask: between tokens; None where nothing is hidden. A word is seen where any of its pieces is, by any piece.
        blocks: all queries, each with the keys that it may attend to.
        """
        entropy = torch.zeros(len(self.windows), dtype=torch.float64)
        linear = torch.zeros(len(self.windows), len(LINEAR), dtype=torch.float64)
        for block in blocks:
            allowed = self.allowed(mask, block.queries, block.keys)
            keys = allowed.sum(dim=-1, keepdim=True).clamp(min=1)
            entropy += (keys[..., 0].cpu().double().log() * block.counts[:, 0].cpu()).sum(dim=-1)
            linear += weighted_sums((allowed / keys).flatten(1)[:, None], block.factors.flatten(2).mT)[:, 0].cpu()
        return entropy.numpy(), linear.numpy()

    def allowed(self, mask: LayerMask | None, block: slice, keys: slice) -> Tensor:
        """Whether each query of a block may attend to each of these keys: float `[window, query, key]`, 1 or 0."""
        rows = self.rows(block)
        shown = None if mask is None else mask.of(block, keys, self.device)
        if shown is None:
            lengths = torch.tensor([len(window) for window in self.windows], device=self.device)
            seen = torch.arange(self.longest, device=self.device) < lengths[:, None]
            return seen[:, None].float().expand(-1, rows.stop - rows.start, -1)
        size = len(self.windows), 1, block.stop - block.start, keys.stop - keys.start
        return (self.merged(shown.expand(size).float(), block) > 0)[:, 0].float()
