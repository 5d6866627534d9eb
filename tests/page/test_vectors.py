"""q and k in a page: as finely as there is room, and the weights made of them within the error that is told."""

import base64
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of
from saved_records import turned, with_vectors
from vectors import maps_again

from attncli.page import vectors as storing
from attncli.page.vectors import COARSEST, FINEST, store
from attncli.record import Vectors

TEXT = "The trophy does not fit in the suitcase because it is too big, and nobody knows who had bought it."


def read(stored, levels) -> Vectors:
    """Return the vectors with the stored numbers, like a page reads them."""
    vectors, found = stored.vectors, {}
    for layer, text in stored.of_layers.items():
        low, high = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8).reshape(2, -1)
        numbers = low + 256.0 * high - levels
        for place, (of, _) in enumerate(vectors.heads):
            if of != layer:
                continue
            parts = [vectors.query[place], vectors.key[place], *(term[place] for term in vectors.terms.values())]
            for part, (array, step) in enumerate(zip(parts, stored.steps[place], strict=True)):
                found[place, part] = (numbers[: array.size] * step).reshape(array.shape)
                numbers = numbers[array.size :]
        assert not numbers.size
    query, key, *terms = (
        np.stack([found[place, part] for place in range(len(vectors.heads))]) for part in range(2 + len(vectors.terms))
    )
    return replace(vectors, query=query, key=key, terms=dict(zip(vectors.terms, terms, strict=True)))


@given(st.integers(0, 2**32 - 1), st.sampled_from([COARSEST, 1000, FINEST]), st.booleans())
def test_every_number_is_within_half_a_step_of_the_true_one(seed, levels, terms):
    numbers = np.random.default_rng(seed)
    query, key = (10.0 ** numbers.integers(-6, 4) * numbers.normal(size=(3, 5, 4)).astype(np.float32) for _ in range(2))
    added = {"one": numbers.normal(size=(3, 5, 5)).astype(np.float32)} if terms else {}
    record = record_of(np.full((2, 2, 5, 5), 0.2))
    made = Vectors([(1, 0), (0, 1), (1, 1)], query.astype(np.float32), key.astype(np.float32), terms=added)
    stored = storing.store_one(record, made, levels)
    back = read(stored, levels)
    for place in range(3):
        for part, (found, true) in enumerate(((back.query, made.query), (back.key, made.key))):
            assert np.abs(found[place] - true[place]).max() <= 0.501 * stored.steps[place][part]
    for name, term in added.items():
        assert np.abs(back.terms[name] - term).max() <= 0.501 * max(steps[2] for steps in stored.steps)


def test_a_head_of_zeros_stays_one():
    zeros = np.zeros((1, 4, 3), dtype=np.float32)
    record = record_of(np.full((4, 4), 0.25))
    stored = storing.store_one(record, Vectors([(0, 0)], zeros, zeros), FINEST)
    assert not read(stored, FINEST).query.any() and stored.errors == [0.0]


@pytest.mark.parametrize("mask", ["padding", "causal"])
@pytest.mark.parametrize("levels", [COARSEST, 500, FINEST])
def test_the_weights_that_a_page_makes_are_within_the_error_that_it_tells_of_the_models(minilm, levels, mask):
    record = minilm.attend(TEXT, layers=[1, 4], mask=mask, pad_to=30, vectors="all")
    stored = storing.store_one(record, record.vectors, levels)
    made = maps_again(replace(record, vectors=read(stored, levels)))
    for (layer, head), weights, error in zip(record.vectors.heads, made, stored.errors, strict=True):
        apart = np.abs(weights - record.map(layer, head)).max()
        assert apart <= error + 2e-6  # by which float32 rounds
        assert error <= 1.2 * apart + 1e-5  # and no more is told than it is
    assert max(stored.errors) < {COARSEST: 0.2, 500: 0.02, FINEST: 0.0005}[levels]


@pytest.mark.parametrize("room", [40_000, 60_000, 90_000])
def test_they_are_stored_as_finely_as_there_is_room(minilm, monkeypatch, room):
    monkeypatch.setattr(storing, "ROOM", 30_000)
    records = [minilm.attend(TEXT, layers=[0, 3], mask=mask, vectors="all") for mask in ("padding", "causal")]
    levels, every = store(records, room)
    taken = sum(len(text) for stored in every for text in stored.of_layers.values())
    count = sum(record.vectors.size for record in records)
    assert COARSEST <= levels <= FINEST
    assert levels == COARSEST or taken <= 1.05 * room
    assert levels == FINEST or taken >= 0.85 * room  # a bit more of each would not go in
    least, most = 1.05, 2.6  # characters for a number with COARSEST and with FINEST levels
    assert count * least * 0.8 < taken < count * most * 1.2


def test_a_record_without_any_has_none(minilm):
    record = minilm.attend("A cat.", layers=0, vectors="0.3")
    levels, (first, second) = store([replace(record, vectors=None), record], 0)
    assert first is None and (levels, list(second.of_layers)) == (FINEST, [0])
    assert store([replace(record, vectors=None)], 0)[1] == [None]


def test_rates_that_heads_share_are_told_once():
    record = turned(with_vectors(record_of(np.full((2, 2, 3, 3), 1 / 3)), [(0, 0), (0, 1), (1, 1)]))
    rotation = record.vectors.rotation
    rates = rotation.rates[[0, 1, 0]]
    record = replace(record, vectors=replace(record.vectors, rotation=replace(rotation, rates=rates)))
    entry = storing.store_one(record, record.vectors, FINEST).entry({}, FINEST)["rotation"]
    assert len(entry["rates"]) == 2 and [entry["rates"][whose] for whose in entry["whose"]] == rates.tolist()
    assert entry["pairs"] == [[1, 0], [3, 2]] and entry["keys"] == [0, 2, 4]
    plain = replace(record.vectors, rotation=None)
    assert storing.store_one(record, plain, FINEST).entry({}, FINEST)["rotation"] is None
