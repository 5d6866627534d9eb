"""How weights are stored: within the error that is told of them, and a row's strongest in their true order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.page.packing import SCALES, Scale, layer_bytes, read_layer

SLACK = 1e-6  # of float32
RANKED = 10  # a row's strongest, whose order is true
scales = st.sampled_from(SCALES) | st.builds(
    Scale,
    steps=st.sampled_from([1, 1.5, 2, 4]),
    parts=st.sampled_from([1, 2, 256, 65536]),
    strongest=st.integers(1, 12),
    floor=st.sampled_from([0, 0.01, 0.3]),
)
shapes = st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 40))


@st.composite
def layers(draw):
    """Rows of a softmax, from all alike to one that has all, with what a mask hides; some weights are alike."""
    shape = draw(shapes)
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = numbers.normal(size=shape) * draw(st.sampled_from([0, 0.01, 1, 5, 40]))
    if draw(st.booleans()):
        scores = np.round(scores)
    scores[numbers.random(shape) < draw(st.sampled_from([0, 0.5]))] = -np.inf
    raised = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), -1e30))
    return (raised / np.maximum(raised.sum(axis=-1, keepdims=True), 1e-30)).astype(np.float32)


def stored(layer, scale):
    return read_layer(b"".join(layer_bytes(layer, scale)), layer.shape, scale)


def check(layer, scale):
    """Everything that a page says of what it stores."""
    found = stored(layer, scale)
    order = np.argsort(-layer, axis=-1, kind="stable")
    true, read = (np.take_along_axis(one, order, axis=-1).astype(np.float64) for one in (layer, found))
    assert (np.diff(read, axis=-1) <= 0).all()  # what is weaker is not stored as stronger
    there = read > 0
    assert (np.abs(read / np.where(there, true, 1) - 1)[there] <= max(scale.rest, scale.error) + SLACK).all()
    assert (true[~there] <= scale.least(layer.shape[-1]) * (1 + SLACK)).all()
    strong = np.arange(true.shape[-1]) < scale.strongest
    smallest = 2 ** (-250 / scale.steps)  # a level further nothing is stored, however strong it is
    refined = np.broadcast_to(strong, true.shape) & (true > max(smallest, 1e-37))
    assert (np.abs(read / np.where(refined, true, 1) - 1)[refined] <= scale.error + SLACK).all()
    alike = refined[..., 1:] & (np.diff(read, axis=-1) == 0)
    assert (true[..., 1:][alike] >= true[..., :-1][alike] / (1 + scale.error) * (1 - SLACK)).all()


@given(layers(), scales)
def test_what_is_told_of_stored_weights_holds(layer, scale):
    check(layer, scale)


def test_the_strongest_ten_of_a_row_and_the_special_tokens_are_ranked_by_every_scale():
    assert min(scale.strongest for scale in SCALES) >= RANKED + 2
    assert max(scale.error for scale in SCALES) <= 0.001


@pytest.mark.parametrize("scale", SCALES)
def test_ranks_and_errors_hold_for_a_real_text(minilm, scale):
    record = minilm.attend("The trophy does not fit in the suitcase because it is too big. " * 4, layers=5)
    for layer in record.weights:
        check(layer, scale)
        found = stored(layer, scale)
        for true, read in zip(layer.reshape(-1, layer.shape[-1]), found.reshape(-1, layer.shape[-1]), strict=True):
            best = np.argsort(-read, kind="stable")[:RANKED]
            assert (true[best[1:]] <= true[best[:-1]] * (1 + scale.error)).all()
            assert true[best[-1]] * (1 + scale.error) >= np.sort(true)[-RANKED]


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["padding", "causal"])
def test_ranks_and_errors_hold_for_512_tokens(minilm, mask):
    text = " ".join(f"On day {day} the {what} moved." for day in range(60) for what in ("bear", "river"))
    record = minilm.attend(text, layers=[0, 3, 5], mask=mask)
    assert record.weights.shape[-1] == 512
    for layer in record.weights:
        check(layer, SCALES[-1])


@given(scales)
def test_nothing_and_everything_are_stored_exactly(scale):
    layer = np.array([[[0.0, 1.0]]], dtype=np.float32)
    assert stored(layer, scale).tolist() == [[[0.0, 1.0]]]


def test_a_weight_that_rounding_put_above_one_is_one():
    assert stored(np.array([[[1.0000001]]], dtype=np.float32), SCALES[0]).item() == 1.0


def test_no_head_takes_no_bytes():
    assert b"".join(layer_bytes(np.zeros((0, 3, 4), dtype=np.float32), SCALES[-1])) == b""


def test_counts_stand_before_levels_and_levels_before_places():
    layer = np.array([[[0.5, 0.25, 0.125, 0.0], [0.25, 0.5, 0.0, 0.0]]], dtype=np.float32)
    data = b"".join(layer_bytes(layer, Scale(1, 512, 2, 1)))
    assert list(data[:4]) == [4, 0, 0, 0]
    assert list(data[4:]) == [1, 2, 2, 1, 255, 255, 255, 255] + [0] * 8


@pytest.mark.parametrize("keys", [16, 512])
def test_what_is_left_out_is_small_beside_the_mean_of_a_row(keys):
    for scale in SCALES:
        assert scale.least(keys) <= 0.15 / keys
