"""A corpus reduced: the same whatever the order, the batch, the block and the number of cores."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from records import tokens_of
from windows import corpus, sums_of

import attncli
from attncli.corpus import reducer as reducing
from attncli.corpus.reducer import Pace, Reducer
from attncli.corpus.sums import FIGURES, Counting, Sums
from attncli.text.windows import TextWindow

MANY = [" ".join(["the cat sat on the big mat"] * (1 + number % 5)) + "." * (number % 3) for number in range(23)]


def assert_same(found: Sums, expected: Sums, tolerance: float) -> None:
    assert (found.texts, found.queries) == (expected.texts, expected.queries)
    assert found.limit == pytest.approx(expected.limit)
    assert np.allclose(found.alike, expected.alike)
    assert np.allclose(found.figures, expected.figures, rtol=tolerance, atol=tolerance)
    assert np.allclose(found.spread, expected.spread, rtol=tolerance, atol=tolerance)


@given(st.lists(st.integers(3, 30), min_size=1, max_size=40), st.integers(1, 200))
def test_batches_hold_every_window_once_and_not_too_many_tokens(lengths, most):
    group = [TextWindow.uncut(tokens_of(length), number) for number, length in enumerate(lengths)]
    batches = reducing.batches(group, most)
    assert sorted(one.text for batch in batches for one in batch) == list(range(len(lengths)))
    neighbours = sorted(sorted(len(one) for one in batch) for batch in batches)
    assert [length for batch in neighbours for length in batch] == sorted(lengths)
    assert all(len(batch) == 1 or sum(map(len, batch)) <= most for batch in batches)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"batch_tokens": 1}, {"batch_tokens": 60, "block_weights": 1}, {"block_weights": 300}], ids=str
)
@pytest.mark.parametrize("asked", [{}, {"measure": "norm", "words": True}, {"mask": "causal", "words": True}], ids=str)
def test_batch_and_block_change_nothing(minilm, options, asked):
    cut = corpus(minilm, [text.replace("big mat", "embeddings") for text in MANY])
    expected = sums_of(Reducer(minilm, Counting(**asked)), cut)
    found = sums_of(Reducer(minilm, Counting(**asked), Pace.on("cpu", **options)), cut)
    assert_same(found, expected, 1e-6)


def test_no_more_of_a_long_text_is_there_than_a_group(monkeypatch):
    monkeypatch.setattr(reducing, "TOKENS_SORTED", 20)
    read = []
    groups = reducing.groups(read.append(number) or TextWindow.uncut(tokens_of(10)) for number in range(101))
    for number in range(50):
        assert len(next(groups)) == 2 and len(read) == 2 * (number + 1)
    assert len(next(groups)) == 1 and next(groups, None) is None


def test_a_text_that_goes_on_over_several_groups_is_one_text(tiny, monkeypatch):
    model = attncli.load_model(str(tiny()), device="cpu")
    cut = corpus(model, ["the cat sat", "the cat sat on the mat, " * 90, "it sat"])
    expected = sums_of(Reducer(model), cut)
    monkeypatch.setattr(reducing, "TOKENS_SORTED", 100)
    states = list(Reducer(model).count(cut))
    assert_same(states[-1], expected, 1e-6)
    assert sum(state.texts == 1 for state in states) > 5  # the second one is not counted before its end


def test_tokens_of_two_windows_count_half_in_each(tiny):
    """Every map is uniform, so query i of 10 tokens has the mean distance (i (i + 1) + (9 - i) (10 - i)) / 20.

    The first window has tokens 0 to 7 of 12, the second 4 to 11. Tokens 4 and 5 count in the first: its queries are
    [CLS] and 6 tokens, and the second's are 6 tokens and [SEP]. Each seven have distances of 21.7 together. If the
    second counted all that they share, the mean would be 45 / 14.
    """
    model = attncli.load_model(str(tiny(max_position_embeddings=10)), device="cpu", dtype="float64")
    model.need(model.layers)
    for layer in range(model.layers):
        for parameter in model.network.layer(layer).attention.query.parameters():
            parameter.zero_()
    cut = corpus(model, ["the cat sat on and it too big the cat sat on"], 4)
    assert [window.counted for window in cut] == [(0, 7), (3, 10)]
    found = sums_of(Reducer(model), cut)
    assert found.queries == 14
    assert np.allclose(found.figures[..., FIGURES.index("distance")], 43.4 / 14, rtol=1e-6)


@pytest.fixture
def cores():
    """`cores(3)`: as on a machine with so many of them."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_at_one_pace_the_number_of_cores_changes_not_a_bit(minilm, cores, threads):
    cut = corpus(minilm, [*MANY[:9], "the cat sat, " * 150])
    pace = Pace(batch_tokens=300, block_weights=10**5, threads=threads)
    found = []
    for count in (1, 3):
        cores(count)
        found.append(sums_of(Reducer(minilm, pace=pace, cores=count), cut))
    assert all(np.array_equal(value, getattr(one, name)) for one in found for name, value in vars(found[0]).items())


def test_who_stops_early_leaves_no_thread_behind(minilm, cores):
    cores(3)
    running = threading.active_count()
    counting = Reducer(minilm, pace=Pace.on("cpu", batch_tokens=20)).count(corpus(minilm, MANY))
    next(counting)
    assert threading.active_count() > running
    counting.close()
    assert threading.active_count() == running
    assert torch.get_num_threads() == 3
