"""The arithmetic of heads by their strongest weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from records import attention_records, layered_records, record_of

from attncli.analysis.edges import ANY, Usual, by_content, strongest_edges


@given(attention_records() | layered_records(), st.data())
def test_the_largest_weight_between_the_two_of_every_head(record, data):
    query, key = (data.draw(st.sampled_from([ANY, *record.tokens.text])) for _ in range(2))
    places = [[p for p, token in enumerate(record.tokens.text) if name in (ANY, token)] for name in (query, key)]
    found = {(edge.layer, edge.head): edge for edge, _ in strongest_edges(record, Usual.of([record]), query, key)}
    for number, layer in enumerate(record.layers):
        for head in record.heads:
            pairs = [(q, k) for q in places[0] for k in places[1] if record.masks[number, q, k]]
            chosen = [(q, k) for q, k in pairs if query != ANY or record.masks[number, q].sum() > 1]
            pairs = chosen or pairs  # a token that may look at one key only has no choice
            assert ((layer, head) in found) == bool(pairs)
            if pairs:
                edge = found[layer, head]
                assert edge.weight == max(record.map(layer, head)[pair] for pair in pairs)
                assert (edge.query, edge.key) in pairs


def test_heads_are_ranked_by_content():
    """Those that have no edge between words come last."""
    high, edge = np.full((8, 8), 0.1), np.full((8, 8), 0.01)
    edge[5, 2] = 0.4
    record = record_of(np.stack([high, edge])[None])
    assert by_content(record) == [(0, 1), (0, 0)]
    assert by_content(record_of(np.full((2, 3, 2, 2), 0.5))) == [
        (layer, head) for layer in (0, 1) for head in (0, 1, 2)
    ]
