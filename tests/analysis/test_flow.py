"""Maximum flow: cases computed by hand, every cut of tiny networks, and networkx's algorithm."""

from itertools import product

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records, record_of

from attncli.analysis.flow import UNIT, flow_shares, maximum_flows
from attncli.analysis.rollout import residual_steps
from attncli.base.errors import RequestError

CLOSE = 1e-6


@st.composite
def networks(draw, layers=3, tokens=3):
    """Steps of a few layers and tokens, some of whose weights are 0."""
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    length = draw(st.integers(2, tokens))
    shape = draw(st.integers(1, layers)), 1, length, length
    weights = numbers.random(shape) ** draw(st.sampled_from([1, 4])) * (numbers.random(shape) < 0.7)
    weights[..., 0] += 1e-3
    return residual_steps(record_of(weights / weights.sum(axis=-1, keepdims=True)))


def edges(steps):
    """(layer above, token, token below, capacity) of every edge."""
    for (layer, above, below), capacity in np.ndenumerate(steps):
        yield (layer + 1, above), (layer, below), capacity


def smallest_cut(steps, query, key):
    """The least capacity that parts the query from the input token, over all ways to part the nodes."""
    source, sink = (len(steps), query), (0, key)
    nodes = {node for above, below, _ in edges(steps) for node in (above, below)} - {source, sink}
    least = np.inf
    for sides in product((True, False), repeat=len(nodes)):
        with_source = {node for node, side in zip(sorted(nodes), sides, strict=True) if side} | {source}
        cut = sum(size for above, below, size in edges(steps) if above in with_source and below not in with_source)
        least = min(least, cut)
    return least


def test_a_case_computed_by_hand():
    """Ã is (.75 .25; .25 .75) twice: .75 + .25 reach the token itself, .25 + .25 the other one."""
    steps = residual_steps(record_of(np.full((2, 1, 2, 2), 0.5)))
    flows = maximum_flows(steps, 1, [0, 1])
    np.testing.assert_allclose(flows, [[1, 0.5], [0.5, 1]], atol=CLOSE)
    np.testing.assert_allclose(flow_shares(flows), [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], atol=CLOSE)


@settings(max_examples=10)
@given(networks())
def test_it_is_the_smallest_cut_of_all(steps):
    query = 0
    flows = maximum_flows(steps, len(steps) - 1, [query])
    wanted = [smallest_cut(steps, query, key) for key in range(steps.shape[-1])]
    np.testing.assert_allclose(flows[0], wanted, atol=CLOSE)


@settings(max_examples=10)
@given(networks(layers=5, tokens=7))
def test_it_is_what_networkx_finds(steps):
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(edges(steps), weight="capacity")
    length = steps.shape[-1]
    for layer in range(len(steps)):
        flows = maximum_flows(steps, layer, range(length))
        for query, key in product(range(length), repeat=2):
            wanted = networkx.maximum_flow_value(graph, (layer + 1, query), (0, key))
            assert flows[query, key] == pytest.approx(wanted, abs=CLOSE)


@given(networks())
def test_from_the_first_layer_it_is_the_step_itself(steps):
    np.testing.assert_allclose(maximum_flows(steps, 0, range(steps.shape[-1])), steps[0], atol=1 / UNIT)


@given(networks(layers=4, tokens=5))
def test_no_more_flows_than_leaves_the_query_or_reaches_the_input_token(steps):
    layer = len(steps) - 1
    flows = maximum_flows(steps, layer, range(steps.shape[-1]))
    assert (flows <= 1 + CLOSE).all()
    assert (flows <= steps[0].sum(axis=0) + CLOSE).all()


@settings(max_examples=10)
@given(attention_records(padding=1))
def test_shares_sum_to_1_and_a_real_token_has_none_of_padding(record):
    layer = record.layers[-1]
    shares = flow_shares(maximum_flows(residual_steps(record), layer, range(len(record.tokens))))
    np.testing.assert_allclose(shares.sum(axis=-1), 1)
    assert (shares[:-1, -1] == 0).all()


def test_rows_are_those_asked_for_and_each_is_counted():
    steps = residual_steps(record_of(np.random.default_rng(1).dirichlet(np.ones(5), (3, 2, 5))))
    done = []
    flows = maximum_flows(steps, 2, [4, 1], lambda: done.append(1))
    np.testing.assert_array_equal(flows, maximum_flows(steps, 2, range(5))[[4, 1]])
    assert len(done) == 2


def test_without_scipy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(
        RequestError, match=r'needs scipy: pip install "\.\[stats\]" in .*, or take --method raw,rollout$'
    ):
        maximum_flows(residual_steps(record_of(np.full((1, 1, 2, 2), 0.5))), 0, [0])
