"""Windows through an engine that gives whole maps and no more, reduced to sums: one record after the other."""

import copy
import warnings
from collections.abc import Sequence

from attncli.analysis.shares import row_shares
from attncli.analysis.statistics import Counting
from attncli.analysis.window_sums import Part, plain_part
from attncli.analysis.words import merge_words
from attncli.base.errors import Notice
from attncli.models.engine import Engine
from attncli.record import AttentionRecord, Request
from attncli.text.windows import Window

# Tokens of a window at the most: the maps of all layers and heads are there at once, however many a model could read.
LONGEST_WINDOW = 1024


class RecordSums:
    """What adds up the weights of batches. Of an encoder-decoder's decoder it is what that writes, text by text, whose
    tokens are counted.

    tokenizer: cuts windows that there is room for.

    which: as in a Request, save that cross-attention can't be counted so.
    """

    def __init__(self, engine: Engine, counting: Counting, which: str | None) -> None:
        self.engine = engine
        self.counting = counting
        self.request = Request(mask=counting.mask, measure=counting.measure, which=which)
        self.tokenizer = copy.copy(engine.tokenizer)
        self.tokenizer.max_tokens = min(engine.tokenizer.max_tokens, LONGEST_WINDOW)
        self.told = self.tokenizer.max_tokens == engine.tokenizer.max_tokens

    def parts(self, batch: Sequence[Window]) -> list[Part]:
        """The sums over each window's queries."""
        if not self.told and any(window.of != 1 for window in batch):
            self.told = True
            warnings.warn(
                f"texts of more than {LONGEST_WINDOW} tokens go through in windows of so many", Notice, stacklevel=2
            )
        records = self.engine.attend_tokens((window.tokens for window in batch), self.request)
        return [self.part(window, record) for window, record in zip(batch, records, strict=True)]

    def part(self, window: Window, record: AttentionRecord) -> Part:
        """From the maps of a window."""
        if record.tokens is not window.tokens:
            # All of what was written, in the place of the window that was read.
            window = Window.whole(record.tokens, window.text, window.of)
        if self.counting.words:
            window, record = window.in_words, merge_words(record)
        record = row_shares(record)
        return plain_part(window, record.weights, record.compact_masks, self.counting.distances)
