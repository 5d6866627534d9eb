"""Maps between words, from maps between their pieces."""

from dataclasses import replace

import numpy as np

from attncli.base.arrays import Floats
from attncli.record import AttentionRecord
from attncli.text.words import word_groups, word_tokens


def merge_words(record: AttentionRecord) -> AttentionRecord:
    """The record between words instead of pieces; its tokens are words.

    Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1), so
    that rows still sum to 1. In a layer a word may attend to a word when any of its pieces may to any. Queries and
    keys (`vectors`) are of pieces only and are left out.
    """
    queries, keys = word_groups(record.tokens), word_groups(record.keys)
    rows, columns = [group[0] for group in queries], [group[0] for group in keys]
    sizes = np.array([len(group) for group in queries], dtype=np.float32)
    to_words = np.add.reduceat(record.weights, columns, axis=-1)
    weights: Floats = (np.add.reduceat(to_words, rows, axis=-2) / sizes[:, None]).astype(np.float32)
    some = np.logical_or.reduceat(np.logical_or.reduceat(record.compact_masks, columns, axis=-1), rows, axis=-2)
    return replace(
        record,
        weights=weights,
        tokens=word_tokens(record.tokens),
        key_tokens=None if record.key_tokens is None else word_tokens(record.key_tokens),
        masks=some,
        vectors=None,
    )
