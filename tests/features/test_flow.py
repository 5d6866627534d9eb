"""attncli flow."""

import json
from dataclasses import replace
from itertools import product

import networkx
import numpy as np
import pytest
from foreign_checkpoints import make_foreign
from hypothesis import given, settings
from hypothesis import strategies as st
from records import attention_records, layered_records, record_of

import attncli as package
from attncli import load_record
from attncli.analysis.rollout import residual_steps, rollout
from attncli.base.errors import RequestError
from attncli.features.flow import follow, maximum_flows

TEXT = "The cat sat on the mat."
CHEAP = ("raw", "rollout")
CLOSE = 1e-6


def document_of(attncli, *arguments):
    return json.loads(attncli("flow", TEXT, "--json", *arguments).out)


def test_json_is_what_the_definitions_say_of_the_model_s_maps(attncli, minilm):
    found = document_of(attncli, "-l", "0,2")
    mean = minilm.attend(TEXT).weights.mean(axis=1, dtype=np.float64)
    steps = 0.5 * mean + 0.5 * np.eye(mean.shape[-1])
    rolled = {0: steps[0], 2: steps[2] @ steps[1] @ steps[0]}
    assert [layer["layer"] for layer in found["layers"]] == [0, 2]
    for layer in found["layers"]:
        rows = {name: [row[name] for row in layer["queries"]] for name in ("raw", "rollout", "flow", "maximum_flow")}
        np.testing.assert_allclose(rows["raw"], mean[layer["layer"]], atol=1e-6)
        np.testing.assert_allclose(rows["rollout"], rolled[layer["layer"]], atol=1e-6)
        flows = np.array(rows["maximum_flow"])
        np.testing.assert_allclose(rows["flow"], flows / flows.sum(axis=1, keepdims=True))
        np.testing.assert_array_equal([row["token"] for row in layer["queries"]], found["tokens"])
    np.testing.assert_allclose([row["flow"] for row in found["layers"][0]["queries"]], rolled[0], atol=1e-6)


@pytest.mark.parametrize("extra", [(), ("-o", "flow.svg"), ("-o", "flow.npz")])
def test_one_query_is_its_row_of_all(attncli, tmp_path, monkeypatch, extra):
    monkeypatch.chdir(tmp_path)
    [layer] = document_of(attncli, "-l", "3")["layers"]
    [alone] = document_of(attncli, "-l", "3", "--query", "mat", *extra)["layers"]
    assert alone["queries"] == [layer["queries"][6]]


def test_the_terminal_shows_the_numbers_of_json(attncli):
    [layer] = document_of(attncli, "-l", "4", "--query", "cat")["layers"]
    [row] = layer["queries"]
    lines = attncli("flow", TEXT, "-l", "4", "--query", "cat").out.splitlines()
    table = [line.split() for line in lines if line[:4].strip().isdigit()]
    for key, line in enumerate(table):
        names = [f"{name}{end}" for name in ("raw", "rollout", "flow") for end in ("", "_uniform")]
        assert [one.strip("()") for one in line[2:]] == [f"{row[name][key]:.3f}" for name in names]
    assert len(table) == 9 and any('token 2 "cat"' in line for line in lines)


def test_the_baseline_is_what_uniform_attention_would_give():
    """Compute by hand two causal layers of two tokens, where Ã is [[1, 0], [1/4, 3/4]] for uniform attention."""
    record = record_of(np.tile([[1, 0], [0.9, 0.1]], (2, 3, 1, 1)), np.tril(np.ones((2, 2), bool)))
    [row] = follow(record, queries=[1]).document()["layers"][0]["queries"]
    assert row["raw_uniform"] == [0.5, 0.5]
    assert row["rollout_uniform"] == [0.25 + 0.75 * 0.25, 0.75 * 0.75]
    assert row["flow_uniform"] == pytest.approx([0.5 / 1.25, 0.75 / 1.25], abs=CLOSE)


def test_words_are_put_together_before_paths_are_followed(attncli):
    text = "The embeddings vanished."
    words = json.loads(attncli("flow", text, "--json", "--words", "--method", "rollout").out)
    assert words["tokens"] == ["[CLS]", "the", "embeddings", "vanished", ".", "[SEP]"]
    for row in words["layers"][0]["queries"]:
        assert sum(row["rollout"]) == pytest.approx(1)


def test_norms_are_followed_as_shares_of_their_rows(attncli, minilm):
    found = document_of(attncli, "--measure", "norm", "--method", "raw", "-l", "1")
    brought = minilm.attend(TEXT, measure="norm").map
    mean = np.mean([brought(1, head) for head in range(12)], axis=0, dtype=np.float64)
    raw = [row["raw"] for row in found["layers"][0]["queries"]]
    np.testing.assert_allclose(raw, mean / mean.sum(axis=1, keepdims=True), atol=1e-6)
    assert found["measure"] == "norm"


@pytest.mark.slow
def test_only_selected_heads_are_followed_and_silenced_ones_change_the_maps(attncli, minilm, tmp_path):
    attncli("run", TEXT, "-l", "all", "-o", tmp_path / "maps.npz")
    for maps, options in (
        (minilm.attend(TEXT), ["-H", "1,3"]),
        (minilm.without("0.3").attend(TEXT), ["-H", "1,3", "--without", "0.3"]),
        (minilm.attend(TEXT), ["-H", "1,3", "--from", tmp_path / "maps.npz"]),
    ):
        text = [] if "--from" in options else [TEXT]
        found = json.loads(attncli("flow", *text, "--json", "--method", "raw", "-l", "2", *options).out)
        raw = [row["raw"] for row in found["layers"][0]["queries"]]
        np.testing.assert_allclose(raw, maps.weights[2, [1, 3]].mean(axis=0), atol=1e-5)


def test_a_record_is_drawn_and_a_saved_one_is_followed(attncli, tmp_path):
    whole, kept, picture = (tmp_path / name for name in ("maps.npz", "flow.safetensors", "flow.png"))
    attncli("run", TEXT, "-l", "all", "-o", str(whole))
    followed = json.loads(attncli("flow", "--from", str(whole), "--json", "-l", "2", "-o", str(kept)).out)
    assert followed == document_of(attncli, "-l", "2")
    record = load_record(kept)
    assert (record.model.name, record.layers, record.heads) == ("minilm (raw, rollout, flow)", [2], [0, 1, 2])
    for head, name in enumerate(("raw", "rollout", "flow")):
        rows = [row[name] for row in followed["layers"][0]["queries"]]
        np.testing.assert_allclose(record.map(2, head), rows, atol=1e-6)
    assert attncli("heatmap", "--from", str(kept), "-o", str(picture)).code == 0 and picture.stat().st_size > 0
    assert attncli("view", "--from", str(kept), "-o", str(tmp_path / "flow.html")).code == 0


def test_models_of_transformers_are_followed_but_not_into_another_text(attncli, refused, tmp_path):
    model = ("--engine", "transformers", "-m", str(make_foreign(tmp_path, "bart")))
    decoded = json.loads(attncli("flow", TEXT, "--json", *model, "--which", "decoder", "--target", "a cat").out)
    for row in decoded["layers"][0]["queries"]:
        assert sum(row["rollout"]) == pytest.approx(1) and not any(row["rollout"][row["query"] + 1 :])
    assert "use --which encoder or decoder" in refused("flow", TEXT, *model, "--target", "a cat")


def test_a_record_without_the_way_down_is_refused(attncli, refused, tmp_path):
    path = tmp_path / "last.npz"
    attncli("run", TEXT, "-l", "5", "-o", str(path))
    assert "needs all layers from 0 on: save it without -l" in refused("flow", "--from", str(path))
    assert "--measure has no effect with --from" in refused("flow", "--from", str(path), "--measure", "norm")
    assert "--mask has no effect with --from" in refused("flow", "--from", str(path), "--mask", "causal")


def test_several_layers_have_a_table_a_method_with_a_column_a_layer(attncli):
    lines = attncli("flow", TEXT, "-l", "0,2", "--method", "rollout,raw").out.splitlines()
    assert lines[0] == "minilm · layers 0,2 · mean of heads 0-11 · mask padding · 9 tokens"
    assert [line.partition(":")[0] for line in lines[1:3]] == ["rollout", "raw"]
    layers = document_of(attncli, "-l", "0,2")["layers"]
    rows = [line.split() for line in lines if line.startswith("   2 cat")]
    assert len(rows) == 2
    for name, row in zip(("rollout", "raw"), rows, strict=True):
        assert row[2::2] == [f"{max(layer['queries'][2][name]):.2f}" for layer in layers]


def test_a_row_that_attends_to_nothing_says_so(tmp_path):
    record = record_of([[[[0, 0], [0, 1]]]], mask=np.array([[False, False], [False, True]]))
    record.save(tmp_path / "maps.npz")
    assert "0 [CLS]   (attends to nothing)" in str(package.flow(saved=tmp_path / "maps.npz", method="raw"))


@pytest.mark.parametrize("query", [None, "cat"])
def test_a_picture_has_a_map_a_layer_and_a_method(tmp_path, query):
    package.flow("minilm", TEXT, layer="0,2", method="raw,rollout", query=query).save(tmp_path / "flow.svg")
    drawn = (tmp_path / "flow.svg").read_text(encoding="utf-8")
    for words in ("raw, up to", "rollout, up to", "layer 0", "layer 2", "share / the map&#x27;s largest", ">mat<"):
        assert words in drawn or words.replace("&#x27;", "'") in drawn


# --- the arithmetic -------------------------------------------------------------------------------------


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


def test_a_case_computed_by_hand():
    """Ã is (.75 .25; .25 .75) twice: .75 + .25 reach the token itself, .25 + .25 the other one."""
    steps = residual_steps(record_of(np.full((2, 1, 2, 2), 0.5)))
    flows = maximum_flows(steps, 1, [0, 1])
    np.testing.assert_allclose(flows, [[1, 0.5], [0.5, 1]], atol=CLOSE)


@pytest.mark.slow
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


@settings(max_examples=10)
@given(attention_records(padding=1))
def test_shares_sum_to_1_and_a_real_token_has_none_of_padding(record):
    shares = follow(record, methods=["flow"]).shares["flow"][0]
    np.testing.assert_allclose(shares.sum(axis=-1), 1)
    assert (shares[:-1, -1] == 0).all()


def test_without_scipy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scipy.sparse", None)
    with pytest.raises(
        RequestError, match=r'needs scipy: pip install "\.\[flow\]" in .*, or use --method raw,rollout$'
    ):
        maximum_flows(residual_steps(record_of(np.full((1, 1, 2, 2), 0.5))), 0, [0])


def window(width: int, length: int = 6) -> np.ndarray:
    """Return the mask that shows so many tokens on either side."""
    return np.abs(np.subtract.outer(range(length), range(length))) <= width


@given(attention_records(padding=1))
def test_a_record_of_shares_says_what_it_is_and_no_share_is_where_the_mask_forbids_it(record):
    rolled = rollout(residual_steps(record))
    made = follow(record, record.layers, methods=CHEAP).as_record()
    assert made.model.name == "made-up (raw, rollout)" and (made.heads, made.model.heads) == ([0, 1], 2)
    np.testing.assert_allclose(made.weights[:, 1], rolled, rtol=1e-6)
    assert (made.weights[..., ~made.mask] == 0).all()


@given(layered_records(padding=1), st.data())
def test_the_mask_of_a_layer_of_shares_is_where_its_rollout_can_be(record, data):
    """The layers of the record may lie in any order, and not all may be asked for."""
    layers = data.draw(st.lists(st.sampled_from(record.layers), min_size=1, unique=True))
    rolled = rollout(residual_steps(record))
    turned = record.select(layers=data.draw(st.permutations(record.layers)))
    made = follow(turned, layers, methods=["rollout"]).as_record()
    np.testing.assert_array_equal(made.masks, rolled[layers] > 0)


def test_only_tokens_that_no_path_leads_to_are_hidden():
    one = record_of(window(1, 7) / window(1, 7).sum(axis=1, keepdims=True), mask=window(1, 7))
    record = replace(one, weights=one.weights.repeat(3, axis=0), layers=[0, 1, 2], masks=one.mask)
    record = replace(record, model=replace(record.model, layers=3))
    found = follow(record, [0, 2], methods=["raw", "rollout"])
    reach = abs(np.arange(7)[:, None] - np.arange(7))
    for name, reaches in (("raw", (1, 1)), ("rollout", (1, 3))):
        for place, far in enumerate(reaches):
            assert np.array_equal(np.isnan(found.maps()[name][place]), reach > far)
