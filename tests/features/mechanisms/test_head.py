"""A head among those of its layer: its map is its own, and being told another order is what it says."""

import numpy as np
import pytest
import torch
from heads import in_layer
from hypothesis import given
from hypothesis import strategies as st

from attncli.attention import Alibi, causal_mask
from attncli.features.mechanisms.head import Figures, HeadInLayer, distances

seeds = st.integers(0, 999)


@pytest.mark.parametrize("mask", ["padding", "causal", "none"])
def test_by_its_own_score_it_is_the_heads_own_map(minilm, trained, mask):
    for layer, head in ((0, 2), (5, 11)):
        taken = HeadInLayer.of(minilm, trained(layer, head, mask))
        look = taken.under(taken.score)
        np.testing.assert_allclose(look.weights, taken.own, atol=1e-5)
        assert look.moved < 1e-5 and look.same_key == 1
        np.testing.assert_allclose(taken.query[head].numpy(), trained(layer, head, mask).query, atol=1e-5)


@given(seeds, st.integers(1, 7), st.integers(0, 2), st.booleans())
def test_what_knows_no_positions_is_the_same_in_any_order(seed, real, padding, causal):
    tokens = real + padding
    head = in_layer(seed, tokens=tokens, padding=padding, mask=causal_mask(tokens) if causal else None)
    order = head.shuffled(torch.Generator().manual_seed(seed))
    assert sorted(order[:real].tolist()) == list(range(real)) and order[real:].tolist() == list(range(real, tokens))
    np.testing.assert_allclose(head.under(head.score, order=order).weights, head.own, atol=1e-6)


@given(seeds)
def test_a_score_that_is_told_an_order_goes_by_it(seed):
    """ALiBi with the places written out: token order[i] stands at place i."""
    head = in_layer(seed)
    order = torch.tensor([2, 0, 5, 1, 4, 3])
    place = {int(token): where for where, token in enumerate(order)}
    away = torch.tensor([[abs(place[i] - place[j]) for j in range(6)] for i in range(6)])
    scores = head.query[1] @ head.key[1].T / 2 - Alibi(3).slopes[1] * away
    found = head.under(Alibi(3), order=order)
    np.testing.assert_allclose(found.weights, scores.softmax(dim=-1).numpy(), atol=1e-6)
    assert found.distance == pytest.approx(float(distances(found.weights).mean()))


def test_a_mask_is_told_the_order_too():
    head, order = in_layer(), torch.tensor([5, 4, 3, 2, 1, 0])
    found = head.under(head.score, causal_mask(6), order=order)
    assert (np.triu(found.weights) == found.weights).all() and found.weights[5, 5] == 1  # told to go the other way


def test_keys_of_another_head_and_a_temperature():
    head = in_layer()
    found = head.under(head.score, temperature=0.5, key=head.key[[0, 2, 1]])
    expected = (head.query[1] @ head.key[2].T / 2 / 0.5).softmax(dim=-1)
    np.testing.assert_allclose(found.weights, expected.numpy(), atol=1e-6)


def test_figures_by_hand():
    weights = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], np.float32)
    own = np.eye(3, dtype=np.float32)
    look = Figures.of(weights, own, np.array([True, True, False]))
    assert distances(weights).tolist() == [1.0, 0.0, 2.0]
    assert (look.distance, look.moved, look.same_key) == (0.5, 0.25, 1.0)
    assert look.entropy == pytest.approx(np.log(2) / 2)
