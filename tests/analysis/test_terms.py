"""What a head's scores are the sum of: parts that add up, hidden keys that are not there, and what has no terms."""

from dataclasses import replace

import numpy as np
import pytest
from records import record_of

from attncli import RequestError
from attncli.record import Vectors
from attncli.record.display import score_terms, with_terms

NUMBERS = np.random.default_rng(0)
MASK = np.tri(5, dtype=bool)


def made(heads=1, terms=("position",), **more):
    """A record whose weights are made of its queries, keys and terms."""
    query, key = NUMBERS.normal(size=(2, heads, 5, 4)).astype(np.float32)
    added = {name: NUMBERS.normal(size=(heads, 5, 5)).astype(np.float32) for name in terms}
    pairs = [(0, head) for head in range(heads)]
    vectors = Vectors(pairs, query, key, np.full(heads, 0.3), added)
    raised = np.exp(0.3 * query @ key.mT + sum(added.values())) * MASK
    return replace(record_of((raised / raised.sum(-1, keepdims=True))[None], MASK), vectors=vectors, **more)


def test_the_parts_add_up_to_the_score_and_that_leads_to_the_weights():
    record = made(terms=("content to position", "position to content"))
    score, *parts = score_terms(record).values()
    np.testing.assert_allclose(score, sum(parts))
    raised = np.exp(np.nan_to_num(score, nan=-np.inf))
    np.testing.assert_allclose(raised / raised.sum(-1, keepdims=True), record.map(0, 0), atol=1e-6)
    assert list(score_terms(record)) == ["score", "content", "content to position", "position to content"]


def test_what_the_mask_hides_is_not_there():
    for part in score_terms(made()).values():
        assert np.array_equal(np.isnan(part), ~MASK)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (made(heads=2), "one head: choose it with -l and -H"),
        (replace(made(), vectors=None), "no q and k of head 0.0 .*--vectors 0.0 -o"),
        (made(terms=()), "add no term to them: leave --terms out"),
        (made(measure="norm"), "no q and k"),
    ],
)
def test_what_has_none_is_refused(record, says):
    with pytest.raises(RequestError, match=says):
        with_terms(record)
