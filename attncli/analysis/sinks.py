"""Sinks: the keys that take weight because a row has to sum to 1, not because of what they say.

[CLS] and [SEP] are sinks (Clark et al. 2019, section 3.2). In a network that looks back only, the first token is one,
whatever it is (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"): every query sees it.
"""

import numpy as np

from attncli.base.arrays import Bools
from attncli.record import AttentionRecord
from attncli.record.selection import select


def sinks(record: AttentionRecord) -> Bools:
    """Return which keys are sinks, bool `[key]`: the special tokens, and the first token where `first_is_sink`."""
    found: Bools = np.array(record.keys.special)
    found[0] |= first_is_sink(record)
    return found


def first_is_sink(record: AttentionRecord) -> bool:
    """Return whether the first token is one of the text's own, and the record's masks only look back.

    They do where no token sees a later one in any layer, and some token sees an earlier one. [PAD] does not count.
    """
    tokens, part = record.tokens, record.part
    if record.key_tokens is not None or tokens.special[0]:
        return False
    if part is not None and part.chosen and select(part.chosen, part.tokens, "token")[0] != 0:
        return False  # the record begins later than its text does
    real = np.flatnonzero(~np.array(tokens.padding))
    masks = record.compact_masks[..., real[:, None], real]
    return bool(np.tril(masks, -1).any() and not np.triu(masks, 1).any())
