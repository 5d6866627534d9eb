"""Patterns of heads: entropy, shares, labels; and norms as shares of their rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, cross_records, layered_records, record_of, tokens

from attncli.analysis.patterns import (
    PATTERNS,
    counted_queries,
    entropy,
    most_attended,
    row_shares,
    summarise,
    total_variation,
)
from attncli.record import AttentionRecord
from attncli.record.grouping import group_record
from attncli.record.selection import Grouping


def test_entropy_of_known_rows():
    rows = np.array([[1, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    assert entropy(rows) == pytest.approx([0, math.log(4), math.log(2), 0])


@pytest.mark.parametrize("label, offset", [("self", 0), ("previous", -1), ("next", 1)])
def test_a_head_that_looks_at_one_offset_has_its_label(label, offset):
    length = 12
    weights = np.zeros((length, length))
    for query in range(length):
        weights[query, min(max(query + offset, 0), length - 1)] = 1
    summary = summarise(record_of(weights))[0, 0]
    assert summary.label == label
    assert summary.entropy == 0
    assert summary.shares[label] == pytest.approx(1 if offset == 0 else (length - 1) / length)


@given(attention_records(padding=2) | layered_records(), st.data())
def test_some_rows_have_the_shares_of_these_rows(record, data):
    """Every row by itself: means over the rows of a text are those of its rows, one by one."""
    counted = [place for place in range(len(record.tokens)) if not record.tokens.padding[place]]
    chosen = sorted(data.draw(st.sets(st.sampled_from(counted), min_size=1)))
    some = summarise(group_record(record, Grouping(queries=chosen)))
    alone = [summarise(group_record(record, Grouping(queries=[place]))) for place in chosen]
    for pair in record.each_head:
        rows = [
            one[pair].shares | {"entropy": one[pair].entropy}
            for one, place in zip(alone, chosen, strict=True)
            if record.mask_of(pair[0])[place].any()
        ]
        for name in [*PATTERNS[:-1], "entropy"]:
            mean = np.mean([row[name] for row in rows]) if rows else 0.0
            found = some[pair].entropy if name == "entropy" else some[pair].shares[name]
            assert found == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("name, offset", [("self", 0), ("previous", -1), ("next", 1)])
def test_a_row_knows_its_place(name, offset):
    weights = np.zeros((8, 8))
    weights[np.arange(8), np.clip(np.arange(8) + offset, 0, 7)] = 1
    assert summarise(group_record(record_of(weights), Grouping(queries="5")))[0, 0].shares[name] == 1


def test_first_separator_and_broad():
    length = 10
    first, separator = np.zeros((length, length)), np.zeros((length, length))
    first[:, 0] = 1
    separator[:, -1] = 1
    assert summarise(record_of(first))[0, 0].label == "first"
    assert summarise(record_of(separator))[0, 0].label == "separator"
    assert summarise(record_of(np.full((length, length), 1 / length)))[0, 0].label == "broad"


def cats(weights) -> AttentionRecord:
    """Tokens 1 and 6 are the same word, 4 and 8 punctuation."""
    text, words = (
        ["[CLS]", "Cat", "sat", "##s", ",", "the", "cat", "ran", ".", "[SEP]"],
        [None, 0, 1, 1, 2, 3, 4, 5, 6, None],
    )
    return replace(record_of(weights), tokens=tokens(text, words))


def test_punctuation_is_every_mark_of_it():
    weights = np.zeros((10, 10))
    weights[:, 4], weights[:, 8] = 0.5, 0.4
    weights[:, 1] = 0.1
    summary = summarise(cats(weights))[0, 0]
    assert (summary.label, summary.strength) == ("punctuation", pytest.approx(0.9))
    assert summary.alike["punctuation"] == pytest.approx(0.2)


def test_the_same_word_counts_over_the_queries_that_have_it_elsewhere():
    """Eight of ten queries have nothing to look for: what they look at makes the head no other kind."""
    weights = np.full((10, 10), 0.1)
    weights[[1, 6]] = 0.02
    weights[1, 6] = weights[6, 1] = 0.82
    summary = summarise(cats(weights))[0, 0]
    assert (summary.label, summary.strength) == ("same_word", pytest.approx(0.82))
    assert summary.alike["same_word"] == pytest.approx(0.1)
    first = weights.copy()
    first[[0, 2, 3, 4, 5, 7, 8, 9]] = np.eye(10)[0]
    assert summarise(cats(first))[0, 0].label == "first"  # which is of all queries


def test_the_same_word_that_the_mask_hides_is_no_word_to_look_at():
    seen = np.tri(10, dtype=bool)
    weights = np.where(seen, 1.0, 0.0) / seen.sum(axis=1, keepdims=True)
    weights[6], weights[1] = np.eye(10)[1], np.eye(10)[0]
    summary = summarise(replace(cats(weights), masks=seen[None]))[0, 0]
    assert summary.shares["same_word"] == 1  # of the seventh token alone: the second can't see it
    assert summary.alike["same_word"] == pytest.approx(1 / 7)


@pytest.mark.parametrize("length, masks", [(3, None), (6, "causal"), (2, None)])
def test_a_head_that_looks_at_everything_alike_is_broad_however_short_the_text(length, masks):
    seen = np.tri(length, dtype=bool) if masks else np.ones((length, length), dtype=bool)
    summary = summarise(record_of(seen / seen.sum(axis=1, keepdims=True), seen))[0, 0]
    assert summary.shares == pytest.approx(summary.alike, abs=1e-6)
    assert max(summary.shares.values()) > 0.3 and summary.label == "broad"


@st.composite
def records_that_look_at_padding(draw) -> AttentionRecord:
    """Draw records without a mask, in which [PAD] gets weight too."""
    padding = draw(st.integers(1, 3))
    record = draw(attention_records(padding=padding))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = numbers.random(record.weights.shape, dtype=np.float32)
    return record_of(weights / weights.sum(axis=-1, keepdims=True), np.ones(weights.shape[-2:], bool), "none", padding)


@given(st.one_of(attention_records(), records_that_look_at_padding()))
def test_shares_are_means_of_the_cells_that_they_name(record):
    length = len(record.tokens)
    for (layer, head), summary in summarise(record).items():
        weights, counted = record.map(layer, head), counted_queries(record, layer)
        queries = [query for query in range(length) if counted[query]]
        word = [None if record.tokens.special[place] else record.tokens.text[place] for place in range(length)]
        elsewhere = {
            query: [
                key
                for key in range(length)
                if key != query and word[key] == word[query] is not None and record.mask_of(layer)[query, key]
            ]
            for query in queries
        }
        by_hand = {
            "self": [weights[query, query] for query in queries],
            "previous": [weights[query, query - 1] if query > 0 else 0 for query in queries],
            "next": [weights[query, query + 1] if query + 1 < length else 0 for query in queries],
            "first": [weights[query, 0] for query in queries],
            "separator": [
                sum(
                    weights[query, key]
                    for key in range(1, length)
                    if record.tokens.special[key] and not record.tokens.padding[key]
                )
                for query in queries
            ],
            "punctuation": [0],  # there is none
            "same_word": [sum(weights[query, key] for key in keys) for query, keys in elsewhere.items() if keys] or [0],
        }
        for name in PATTERNS:
            assert summary.shares[name] == pytest.approx(float(np.mean(by_hand[name])), abs=1e-6)


@given(attention_records())
def test_most_attended_is_the_mean_over_queries(record):
    [(key, weight)] = most_attended(record, record.layers[0], record.heads[0], 1)
    means = record.map(record.layers[0], record.heads[0])[counted_queries(record, record.layers[0])].mean(axis=0)
    assert weight == pytest.approx(float(means.max()))
    assert means[key] == means.max()


@given(layered_records(padding=1))
def test_a_query_counts_where_its_own_layer_lets_it_attend_to_something(record):
    for layer, masks in zip(record.layers, record.masks, strict=True):
        assert counted_queries(record, layer).tolist() == [*masks.any(axis=-1)[:-1].tolist(), False]
        alone = record.select(layer)
        for head in record.heads:
            assert summarise(record)[layer, head] == summarise(alone)[layer, head]
            assert most_attended(record, layer, head, 3) == most_attended(alone, layer, head, 3)


@given(cross_records())
def test_a_key_of_another_text_is_neither_the_query_nor_its_neighbour(record):
    for summary in summarise(record).values():
        assert [summary.shares[name] for name in ("self", "previous", "next")] == [0, 0, 0]
        assert summary.label in ("first", "separator", "broad")
    for (layer, head), summary in summarise(record).items():
        weights = record.map(layer, head)[counted_queries(record, layer)]
        assert summary.shares["first"] == pytest.approx(weights[:, 0].mean(), abs=1e-6)
        assert summary.shares["separator"] == pytest.approx(weights[:, -1].mean(), abs=1e-6)


def test_total_variation_by_hand():
    some = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    more = np.array([[0, 1, 0], [0.5, 0.5, 0], [0.5, 0.3, 0.2]], dtype=np.float32)
    assert total_variation(some, more) == pytest.approx([1, 0, 0.3])


def test_what_goes_to_a_sink_is_weight_that_moves_too():
    """Count the rest of each row like one more key."""
    some, more = np.array([[0.5, 0.2], [0.1, 0.1]]), np.array([[0.25, 0.1], [0.6, 0.1]])
    whole = [np.column_stack([rows, 1 - rows.sum(axis=1)]) for rows in (some, more)]
    assert total_variation(some, more, sinks=True) == pytest.approx(total_variation(*whole))
    assert total_variation(some, more, sinks=True)[0] != pytest.approx(total_variation(some, more)[0])


# --- norms as shares ---------------------------------------------------------------------------------


def norms_of(record, lengths):
    """The record as one of norms: every key's weight times its length."""
    return replace(record, weights=record.weights * lengths, measure="norm")


@given(attention_records(padding=1), st.floats(0.01, 100))
def test_rows_sum_to_1_in_the_proportions_of_the_norms(record, length):
    lengths = np.linspace(length, 2 * length, len(record.tokens), dtype=np.float32)
    norms = norms_of(record, lengths)
    shares = row_shares(norms)
    np.testing.assert_allclose(shares.weights.sum(axis=-1), 1, rtol=1e-5)
    again = shares.weights * norms.weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(again, norms.weights, rtol=1e-5, atol=1e-30)  # the smallest floats have fewer digits
    assert shares.measure == "share of norm" and row_shares(shares) is shares


@given(attention_records())
def test_a_row_of_nothing_stays_so_and_weights_are_left_alone(record):
    assert row_shares(record) is record
    nothing = norms_of(record, np.zeros(len(record.tokens), dtype=np.float32))
    assert (row_shares(nothing).weights == 0).all()
