"""Attention flow: the most that can flow from a token of some layer to an input token, attention being capacity."""

from collections.abc import Callable, Sequence

import numpy as np

from attncli.base.arrays import Doubles
from attncli.base.errors import RequestError, install_hint

# Capacities are whole numbers of 32 bits in scipy, and a flow on an edge may be taken back: twice UNIT must fit.
UNIT = 2**29


def maximum_flows(
    steps: Doubles, layer: int, queries: Sequence[int], advance: Callable[[], None] = lambda: None
) -> Doubles:
    """The maximum flow from tokens of one layer to each input token, `[len(queries), input token]`.

    Abnar and Zuidema 2020, section 3: the nodes are the tokens after every layer, and below them the input; an
    edge leads from a token to each token one layer below, with the capacity Ã (`steps`, of
    `attncli.analysis.rollout.residual_steps`). Each query and input token is a problem of its own, solved by
    Dinic's algorithm in scipy. A flow is at most 1, what leaves the query.

    Capacities are rounded to whole 2^-29, so a flow is off by at most 2^-30 for each edge of the smallest cut: with
    30 tokens and 12 layers, which have 10,800 edges, by less than 1.1e-5, and mostly by less than 1e-7.

    `advance` is called after every query. Raises RequestError when scipy is not installed.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError as error:
        raise RequestError(
            f"attention flow needs scipy: {install_hint('stats')}, or take --method raw,rollout"
        ) from error
    length = steps.shape[-1]
    capacities = np.rint(steps[: layer + 1] * UNIT).astype(np.int32)
    # In 32 bits because scipy's flow takes no wider numbers of nodes before 1.15.
    number, above, below = (places.astype(np.int32) for places in np.nonzero(capacities))
    nodes = (number + 1) * length + above, number * length + below
    graph = csr_array((capacities[number, above, below], nodes), shape=((layer + 2) * length,) * 2)
    flows = np.empty((len(queries), length))
    for place, query in enumerate(queries):
        source = (layer + 1) * length + query
        flows[place] = [maximum_flow(graph, source, key, method="dinic").flow_value / UNIT for key in range(length)]
        advance()
    return flows


def flow_shares(flows: Doubles) -> Doubles:
    """Flows to the input tokens as shares of their sum, so that a row sums to 1 as a row of weights does.

    The paper does not say so; its authors' program does. There is always a flow: the residual connection's.
    """
    shares: Doubles = flows / flows.sum(axis=-1, keepdims=True)
    return shares
