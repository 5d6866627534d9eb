"""Distances between heads, and their clusters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, jensenshannon

from attncli import RequestError
from attncli.corpus import sums
from attncli.corpus.sums import Distances, clustered, divergence_sums, embedded

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
