"""Maps between words, from maps between their pieces."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli.base.arrays import Floats
from attncli.record import AttentionRecord
from attncli.text.tokens import Tokens
from attncli.text.words import word_groups, word_tokens


def merge_words(record: AttentionRecord) -> AttentionRecord:
    """The record between words instead of pieces; its tokens are words.

    Weights to the pieces of a word add up, weights from them are averaged (Clark et al. 2019, section 4.1), so
    that rows still sum to 1. In a layer a word may attend to a word when any of its pieces may to any. Queries and
    keys (`vectors`) are of pieces only and are left out.
    """
    groups = word_groups(record.tokens), word_groups(record.keys)
    of_keys = None if record.key_tokens is None else word_tokens(record.key_tokens)
    return merge(record, groups, word_tokens(record.tokens), of_keys)


def merge(
    record: AttentionRecord,
    groups: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    tokens: Tokens,
    key_tokens: Tokens | None,
) -> AttentionRecord:
    """The record between groups of neighbouring tokens, of the queries and of the keys, which become `tokens` and
    `key_tokens`; weights and masks as `merge_words` has them.
    """
    queries, keys = groups
    rows, columns = [group[0] for group in queries], [group[0] for group in keys]
    sizes = np.array([len(group) for group in queries], dtype=np.float32)
    to_groups = np.add.reduceat(record.weights, columns, axis=-1)
    weights: Floats = (np.add.reduceat(to_groups, rows, axis=-2) / sizes[:, None]).astype(np.float32)
    some = np.logical_or.reduceat(np.logical_or.reduceat(record.compact_masks, columns, axis=-1), rows, axis=-2)
    said = None if record.prediction is None else record.prediction.between(queries)
    return replace(
        record, weights=weights, tokens=tokens, key_tokens=key_tokens, masks=some, vectors=None, prediction=said
    )
