"""Which heads of a record look at the words of the text, and not only where attention rests."""

import numpy as np

from attncli.analysis.patterns import counted_queries
from attncli.base.arrays import Doubles
from attncli.record import AttentionRecord


def heads_by_content(record: AttentionRecord) -> list[tuple[int, int]]:
    """The heads as (layer, head), those that look at words most first: by `content_weights`."""
    shares = content_weights(record)
    order = np.argsort(-shares, axis=None, kind="stable")
    places = zip(*np.unravel_index(order, shares.shape), strict=True)
    return [(record.layers[layer], record.heads[head]) for layer, head in places]


def content_weights(record: AttentionRecord) -> Doubles:
    """For each head the strongest weight from a word to another one, mean over the text, `[layer, head]`.

    A word is a token that the tokenizer did not add; as a key neither the first token, where weight rests that goes
    nowhere else (Xiao et al. 2023), nor the query itself. 0 where there are no such queries or keys.
    """
    words = ~np.array(record.keys.special)
    words[0] = False
    keys = np.flatnonzero(words)
    found = np.zeros(record.weights.shape[:2])
    for place, layer in enumerate(record.layers):
        queries = np.flatnonzero(counted_queries(record, layer) & ~np.array(record.tokens.special))
        if len(queries) and len(keys):
            other = queries[:, None] != keys if record.key_tokens is None else True
            to_words = record.weights[place][:, queries[:, None], keys] * other  # [head, query, key]
            found[place] = to_words.max(axis=-1).mean(axis=-1)
    return found
