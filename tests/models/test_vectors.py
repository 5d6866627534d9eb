"""Queries and keys: whichever a record keeps, they make its maps."""

import numpy as np
import pytest
from checkpoints import EVERY
from hypothesis import given, settings
from hypothesis import strategies as st
from vectors import TEXT, vectors_make_the_maps

from attncli import RequestError, load_model
from attncli.models.head import one_head


@pytest.mark.parametrize("family", EVERY)
@given(data=st.data())
@settings(max_examples=15)
def test_queries_and_keys_make_the_maps_of_every_family(family, data, tiny):
    """Whatever is kept, of each of several texts that go through the network together."""
    model = load_model(str(tiny(family)), "cpu")
    layers, heads = (
        data.draw(st.lists(st.integers(0, 3), min_size=1, unique=True), label=what) for what in ("layers", "heads")
    )
    pairs = [(layer, head) for layer in layers for head in heads]
    vectors = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True), label="vectors")
    mask = data.draw(st.sampled_from(["padding", "causal", "none"]), label="mask")
    texts = ["the cat sat", "on the cat", "it is big", "the big cat sat on it"]
    for record in model.attend_many(texts, None, layers, heads, mask, pad_to=30, vectors=vectors):
        assert record.vectors.heads == vectors
        vectors_make_the_maps(record)


@pytest.mark.parametrize("family", ["modernbert", "bert"])
def test_what_positions_turned_can_be_turned_back(family, tiny):
    """Compare with the projections, x W + b, for every token, for some, and from a file."""
    model = load_model(str(tiny(family)), "cpu")
    record = model.attend("the cat sat on it", vectors="all", layers=[0, 1])
    assert (record.vectors.turning is not None) == (family == "modernbert")
    few = record.vectors.between(slice(1, 4), np.array([2, 4]))
    for layer, head in record.vectors.heads:
        taken = one_head(model, record.tokens, layer, head, "padding")
        unturned = [taken.before["query"], taken.before["key"]]
        for found, expected in zip(record.vectors.before(layer, head), unturned, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)
        for found, expected, some in zip(few.before(layer, head), unturned, ([1, 2, 3], [2, 4]), strict=True):
            np.testing.assert_allclose(found, expected[some], atol=1e-5)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"vectors": "4.12"}, "head 12 .*0 to 11"),
        ({"vectors": "6.0"}, "layer 6 .*0 to 5"),
        ({"vectors": "4"}, "'4' is not LAYER.HEAD"),
        ({"vectors": "4.7", "layers": "0-3"}, r"head 4\.7 is not kept \(layers 0-3, heads 0-11\).*-l and -H"),
        ({"vectors": [(4, 7)], "heads": 6}, r"head 4\.7 is not kept \(layers 0-5, heads 6\).*-l and -H"),
    ],
)
def test_vectors_that_cannot_be_had(request_, says, minilm):
    with pytest.raises(RequestError, match=says):
        minilm.attend(TEXT, **request_)
