"""Sums of real texts are accepted and impossible ones refused; the distances between heads that they give."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records
from scipy.spatial.distance import cdist, jensenshannon

from attncli import RequestError
from attncli.corpus import statistics as ranges
from attncli.corpus import sums
from attncli.corpus.statistics import record_sums
from attncli.corpus.sums import Distances, Sums, clustered, divergence_sums, embedded

# --- ranges ----------------------------------------------------------------------------------------------


@st.composite
def sums_of_texts(draw) -> Sums:
    """Draw the sums of some texts of one model, with distances."""
    first = draw(attention_records())
    layers, heads = first.weights.shape[:2]
    total = Sums.nothing(layers, heads, divergence=True) + record_sums(first, distances=True)
    for record in draw(st.lists(attention_records(), max_size=3)):
        if record.weights.shape[:2] == (layers, heads):
            total += record_sums(record, distances=True)
    return total


@given(sums=sums_of_texts())
def test_sums_of_texts_are_in_range(sums):
    ranges.check_sums(sums)
    ranges.check_sums(Sums.nothing(*sums.totals.shape[:2], divergence=True))


@given(
    sums=sums_of_texts(),
    name=st.sampled_from(["totals", "means", "squares", "limit", "alike", "divergence"]),
    value=st.sampled_from([np.nan, np.inf, -np.inf, -5.0, 1e9]),
    data=st.data(),
)
def test_one_number_out_of_range_is_found(sums, name, value, data):
    array = np.array(getattr(sums, name))
    array[tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)] = value
    with pytest.raises(ValueError, match=r"not from 0 to|both ways"):
        ranges.check_sums(replace(sums, **{name: array}))


@pytest.mark.parametrize("counts", [{"texts": -1}, {"texts": 0}, {"queries": 0}, {"texts": 10**6}, {"queries": -3}])
@settings(max_examples=3)
@given(sums=sums_of_texts())
def test_counts_that_the_sums_are_not_of(counts, sums):
    with pytest.raises(ValueError):
        ranges.check_sums(replace(sums, **counts))


# --- distances -------------------------------------------------------------------------------------------


pytest.importorskip("sklearn")


def some_weights(seed: int, heads: int = 4, queries: int = 3, keys: int = 6) -> np.ndarray:
    weights = np.random.default_rng(seed).random((heads, queries, keys)) ** 4
    weights[:, :, 0][weights[:, :, 0] < 0.3] = 0  # some weights are exactly 0
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 2**32 - 1))
def test_divergences_are_scipys_jensen_shannon_distances_squared(seed):
    weights = some_weights(seed)
    found = divergence_sums(weights)
    for one in range(4):
        for other in range(4):
            expected = (jensenshannon(weights[one], weights[other], axis=-1) ** 2).sum()
            assert found[one, other] == pytest.approx(expected, abs=1e-5)


def test_a_head_is_nothing_from_itself_and_ln_2_from_one_that_shares_no_key():
    weights = np.array([[[1, 0, 0]], [[0, 0.5, 0.5]], [[1, 0, 0]]], dtype=np.float32)
    assert divergence_sums(weights) == pytest.approx(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) * math.log(2))


@given(st.integers(0, 2**32 - 1))
def test_points_of_a_plane_are_found_again(seed):
    points = np.random.default_rng(seed).random((7, 2))
    metric = cdist(points, points)
    assert np.allclose(cdist(*[embedded(metric)] * 2), metric, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_clusters_that_are_far_apart_are_found(seed, count):
    numbers = np.random.default_rng(seed)
    groups = numbers.permutation(np.repeat(np.arange(count), 4))
    points = np.stack([100.0 * groups, np.zeros(len(groups))], axis=1) + numbers.random((len(groups), 2))
    found = clustered(cdist(points, points))
    first_seen = list(dict.fromkeys(groups.tolist()))
    assert found == [first_seen.index(group) for group in groups]


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_few_heads_or_equal_ones_are_one_cluster_in_one_place(heads):
    made = Distances.of(np.zeros((heads, heads)))
    assert made.clusters == [0] * heads
    assert not made.embedding.any()


def test_without_the_libraries_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sums, "find_spec", lambda name: None if name == "sklearn" else name)
    with pytest.raises(RequestError, match=r'scikit-learn: pip install "\.\[stats\]" in '):
        Distances.of(np.zeros((3, 3)))
