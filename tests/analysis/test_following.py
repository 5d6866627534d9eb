"""Following attention down: every method is what its formula says, of the layers and queries asked for."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records, cross_records

from attncli.analysis.flow import flow_shares, maximum_flows
from attncli.analysis.following import METHODS, follow
from attncli.analysis.rollout import mean_maps, residual_steps, rollout
from attncli.base.errors import RequestError

CHEAP = ("raw", "rollout")


@settings(max_examples=10)
@given(attention_records(), st.data())
def test_shares_are_those_of_the_formulas_whichever_layers_and_queries_are_asked_for(record, data):
    layers = data.draw(st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    queries = data.draw(st.lists(st.integers(0, len(record.tokens) - 1), min_size=1, unique=True))
    found = follow(record, layers, queries)
    steps = residual_steps(record)
    flows = np.stack([maximum_flows(steps, layer, queries) for layer in layers])
    np.testing.assert_array_equal(found.shares["raw"], mean_maps(record)[layers][:, queries])
    np.testing.assert_array_equal(found.shares["rollout"], rollout(steps)[layers][:, queries])
    np.testing.assert_array_equal(found.flows, flows)
    np.testing.assert_array_equal(found.shares["flow"], flow_shares(flows))
    for rows in found.shares.values():
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-5)


@given(attention_records())
def test_without_more_it_is_the_last_layer_and_every_token(record):
    found = follow(record, methods=CHEAP)
    assert (found.layers, found.queries) == ([record.layers[-1]], list(range(len(record.tokens))))
    again = follow(record, layers="-1", methods=CHEAP)
    for name, rows in found.shares.items():
        np.testing.assert_array_equal(again.shares[name], rows)


@given(attention_records(), st.permutations(CHEAP))
def test_methods_come_once_and_in_the_order_asked_for(record, methods):
    found = follow(record, methods=[*methods, *methods])
    assert list(found.shares) == methods and found.flows is None


@given(attention_records())
def test_layers_of_a_record_may_lie_in_any_order(record):
    turned = record.select(layers=record.layers[::-1])
    for name, rows in follow(record, "all", methods=CHEAP).shares.items():
        np.testing.assert_array_equal(follow(turned, record.layers, methods=CHEAP).shares[name], rows)


@settings(max_examples=5)
@given(attention_records())
def test_the_document_has_a_row_a_query_or_the_one_that_is_held(record):
    found = follow(record, "all")
    made = json.loads(json.dumps(found.document(), allow_nan=False))
    assert [layer["layer"] for layer in made["layers"]] == record.layers
    held = len(record.tokens) - 1
    for number, layer in enumerate(made["layers"]):
        assert [row["token"] for row in layer["queries"]] == made["tokens"] == record.tokens.text
        for row in layer["queries"]:
            for name in METHODS:
                assert row[name] == found.shares[name][number, row["query"]].tolist()
            assert row["maximum_flow"] == found.flows[number, row["query"]].tolist()
        assert found.document(held)["layers"][number]["queries"] == layer["queries"][held:]
    rows(made, [made["tokens"]], None)
    rows(found.document(held), [made["tokens"][held:], made["tokens"]], made["tokens"])


def rows(made, tokens, keys):
    """The record of a document has the rows of its layers."""
    [record] = made["records"]
    assert record["tokens"] == tokens[0] and record.get("key_tokens") == keys
    maps = iter(record["attention"])
    for layer in made["layers"]:
        for head, name in enumerate(METHODS):
            one = next(maps)
            assert (one["layer"], one["head"], one["method"]) == (layer["layer"], head, name)
            np.testing.assert_array_equal(
                np.float32(one["weights"]), np.float32([row[name] for row in layer["queries"]])
            )
    assert next(maps, None) is None


@settings(max_examples=5)
@given(attention_records())
def test_who_waits_is_told_of_every_query_of_flow(record):
    told = []
    follow(record, "all", [0, 1], ["raw", "flow"], lambda: told.append(1))
    assert len(told) == 2 * len(record.layers)


@given(attention_records())
def test_what_can_not_be_followed_is_refused(record):
    with pytest.raises(RequestError, match="no method 'rollin': it is one of raw, rollout, flow"):
        follow(record, methods=["raw", "rollin"])
    with pytest.raises(RequestError, match="out of range"):
        follow(record, layers=len(record.layers))
    if len(record.layers) > 1:
        with pytest.raises(RequestError, match="all from 0 on"):
            follow(record.select(layers=[-1]), methods=["raw"])


@given(cross_records())
def test_nothing_is_followed_into_another_text(record):
    with pytest.raises(RequestError, match="another text"):
        follow(record)
