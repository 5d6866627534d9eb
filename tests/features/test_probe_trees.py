"""Maximum spanning trees: beside networkx's, and all trees that there are."""

from itertools import combinations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.features.probe.tally import shared_edges, spanning_trees


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_spanning_trees_are_as_heavy_as_a_librarys(count, seed):
    maps = np.random.default_rng(seed).random((2, 3, count, count))
    maps = maps + maps.swapaxes(-1, -2)
    trees = spanning_trees(maps)
    assert trees.shape == (2, 3, count) and not trees[..., 0].any()
    for place in np.ndindex(2, 3):
        graph = networkx.from_numpy_array(maps[place])
        heaviest = networkx.maximum_spanning_tree(graph)
        mine = networkx.Graph((word, int(joined)) for word, joined in enumerate(trees[place]) if word)
        assert networkx.is_tree(mine) and len(mine) == count
        assert {frozenset(edge) for edge in mine.edges} == {frozenset(edge) for edge in heaviest.edges}


@given(st.integers(2, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_no_tree_at_all_is_heavier(count, seed, rounded):
    """Try all sets of edges that are trees. Rounded weights bring ties and zeros."""
    one = np.random.default_rng(seed).random((count, count))
    one = one + one.T
    one = np.floor(2 * one) if rounded else one
    pairs = list(combinations(range(count), 2))
    heaviest = max(
        sum(one[pair] for pair in edges)
        for edges in combinations(pairs, count - 1)
        if networkx.is_connected(networkx.Graph([(word, word) for word in range(count)] + list(edges)))
    )
    tree = spanning_trees(one)
    assert sum(one[word, tree[word]] for word in range(1, count)) == pytest.approx(heaviest)


def test_shared_edges_count_both_ways_round():
    gold = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    assert shared_edges(np.array([[0, 0, 0], [0, 0, 1], [0, 2, 1]]), gold).tolist() == [1, 2, 2]
