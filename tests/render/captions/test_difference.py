"""What is said of two records beside each other."""

from dataclasses import replace

import numpy as np
from records import record_of

from attncli.analysis.difference import difference
from attncli.render.captions.difference import token_pairs


def test_tokens_that_are_not_the_same_are_both_named():
    first = record_of(np.full((4, 4), 1 / 4))
    tokens = replace(first.tokens, shown=[], text=["[CLS]", "dog\x1b", "##s", "[SEP]"])
    other = replace(first, tokens=tokens, weights=np.eye(4, dtype=np.float32)[None, None])
    queries, keys = token_pairs(difference(first, other))
    assert queries == keys
    assert queries[0] == "[CLS]" and queries[2] == "##s"
    assert queries[1].startswith("cat / dog") and "\x1b" not in queries[1]
