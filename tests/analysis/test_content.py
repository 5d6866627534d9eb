"""Which heads look at words."""

import numpy as np
from hypothesis import given
from records import attention_records, cross_records, record_of, tokens_of

from attncli.analysis.content import content_weights, heads_by_content


@given(attention_records(padding=1) | cross_records())
def test_the_mean_of_the_strongest_weights_between_different_words(record):
    found = content_weights(record)
    for layer, maps in enumerate(record.weights):
        for head, weights in enumerate(maps):
            strongest = []
            for query, row in enumerate(weights):
                keys = [
                    key
                    for key in range(1, len(row))
                    if not record.keys.special[key] and (record.key_tokens is not None or key != query)
                ]
                if not record.tokens.special[query] and any(not flag for flag in record.keys.special[1:]):
                    strongest.append(max((row[key] for key in keys), default=0))
            np.testing.assert_allclose(found[layer, head], np.mean(strongest) if strongest else 0, atol=1e-6)


@given(attention_records())
def test_heads_are_ranked_by_it(record):
    found = content_weights(record)
    ranked = [found[layer, head] for layer, head in heads_by_content(record)]
    assert ranked == sorted(found.ravel(), reverse=True)


def test_where_attention_rests_is_no_word():
    rest, previous = np.zeros((6, 6)), np.eye(6, k=-1)
    rest[:, 0] = 1
    itself = np.eye(6)
    record = record_of(np.stack([rest, itself, previous])[None])
    assert record.tokens == tokens_of(6)
    assert content_weights(record).tolist() == [[0, 0, 0.75]]  # the first word has [CLS] before it
    assert heads_by_content(record)[0] == (0, 2)
