"""One row of one head: its steps lead from q, k and v to the weights and the output."""

import json
from dataclasses import replace

import numpy as np
import pytest
from heads import heads
from hypothesis import given
from hypothesis import strategies as st
from records import record_of

from attncli.analysis.steps import BY_KEY, BY_VALUE, document, row_steps
from attncli.record import Vectors


@st.composite
def rows(draw):
    keys, size = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 30.0]))
    query, key, value = (numbers.standard_normal(shape, dtype=np.float32) for shape in [size, (keys, size), (keys, 3)])
    allowed = numbers.random(keys) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return scale * query, key, value, allowed


def weights_of(query, key, allowed):
    """Softmax written the plain way, in float64, with exp that may not overflow here."""
    scaled = [float(np.dot(query.astype(float), one)) / len(query) ** 0.5 for one in key.astype(float)]
    raised = [np.exp(one) if may else 0.0 for one, may in zip(scaled, allowed, strict=True)]
    return np.float32([one / sum(raised) if sum(raised) else 0.0 for one in raised])


@given(rows())
def test_the_steps_lead_to_the_weights_and_the_output(row):
    query, key, value, allowed = row
    weight = weights_of(query, key, allowed)
    steps = row_steps(query, key, value, allowed, weight)
    np.testing.assert_allclose(steps.computed, weight, atol=1e-6)
    np.testing.assert_allclose(steps.scaled * len(query) ** 0.5, steps.score)
    assert steps.total == pytest.approx(steps.raised.sum())
    assert (steps.raised <= 1).all() and (steps.raised[~allowed] == 0).all()
    assert steps.raised.max() == (1 if allowed.any() else 0)
    np.testing.assert_allclose(steps.output, weight.astype(float) @ value.astype(float), atol=1e-12)
    np.testing.assert_allclose(steps.contribution, weight * steps.value_norm, rtol=1e-5)


def test_by_hand():
    query = np.float32([2, 0])
    key = np.float32([[1, 5], [0, 3], [9, 9]])
    value = np.float32([[3, 4], [0, 1], [7, 7]])
    steps = row_steps(query, key, value, np.array([True, True, False]), np.float32([0.8, 0.2, 0]))
    assert steps.score.tolist() == [2, 0, 18]
    assert steps.scaled == pytest.approx([2**0.5, 0, 18 / 2**0.5])
    assert steps.largest == pytest.approx(2**0.5)
    assert steps.raised == pytest.approx([1, np.exp(-(2**0.5)), 0])
    assert steps.computed == pytest.approx([0.804429, 0.195571, 0], abs=1e-6)
    assert steps.value_norm == pytest.approx([5, 1, 98**0.5])
    assert steps.contribution == pytest.approx([4, 0.2, 0])
    assert steps.output == pytest.approx([2.4, 3.4])


def test_where_nothing_may_be_attended_to_everything_is_nothing():
    steps = row_steps(
        *np.ones((1, 4), np.float32),
        np.ones((3, 4), np.float32),
        np.ones((3, 2), np.float32),
        np.zeros(3, bool),
        np.zeros(3, np.float32),
    )
    assert steps.total == 0 and steps.computed.tolist() == [0, 0, 0] and steps.output.tolist() == [0, 0]


@given(heads(), st.data())
def test_the_document_has_the_steps_of_a_head_s_row_key_by_key(head, data):
    record = head.record
    query = data.draw(st.integers(0, len(record.tokens) - 1))
    made = json.loads(json.dumps(document(record, head.x, head.value, query), allow_nan=False))
    steps = row_steps(head.query[query], head.key, head.value, record.mask[query], record.map(0, 0)[query])
    for name in BY_KEY:
        assert [row[name] for row in made["keys"]] == getattr(steps, name).tolist()
    assert [row["token"] for row in made["keys"]] == record.tokens.text
    assert (made["layer"], made["head"], made["query"]["token"]) == (0, 0, record.tokens.text[query])
    assert made["query"]["q"] == head.query[query].tolist() and made["query"]["x"] == head.x[query].tolist()
    assert [row["v"] for row in made["keys"]] == head.value.tolist()
    assert made["output_norm"] == pytest.approx(np.linalg.norm(made["output"]))


def test_keys_are_hidden_by_the_mask_of_the_heads_own_layer():
    masks = np.stack([np.tri(4, dtype=bool), np.tri(4, dtype=bool).T])
    numbers = np.random.default_rng(0).normal(size=(2, 2, 4, 3)).astype(np.float32)
    vectors = Vectors([(0, 0), (1, 0)], *numbers)
    record = replace(record_of(np.full((2, 1, 4, 4), 0.25), masks), vectors=vectors)
    for layer, expected in enumerate(([True, True, False, False], [False, True, True, True])):
        made = document(record.select(layer), np.ones((4, 5), np.float32), numbers[0, 0], 1)
        assert [row["allowed"] for row in made["keys"]] == expected


@given(heads(), st.data())
def test_without_values_all_that_is_made_of_q_and_k_is_the_same(head, data):
    record = head.record
    query = data.draw(st.integers(0, len(record.tokens) - 1))
    whole, part = document(record, head.x, head.value, query), document(record, None, None, query)
    assert set(whole) - set(part) == {"output", "output_norm"} and set(whole["query"]) - set(part["query"]) == {"x"}
    for every, some in zip(whole["keys"], part["keys"], strict=True):
        assert set(every) - set(some) == {"v", *BY_VALUE}
        assert some == {name: value for name, value in every.items() if name in some}


def test_a_cross_attention_says_so():
    record = replace(record_of(np.full((4, 4), 0.25)), vectors=Vectors([(0, 0)], *np.ones((2, 1, 4, 3), np.float32)))
    assert "kind" not in document(record, None, None, 0)
    cross = replace(record, kind="cross", key_tokens=record.tokens)
    assert document(cross, None, None, 0)["kind"] == "cross"
