"""One head taken apart: what makes its scores, beside transformers' own tensors; kept queries and keys make maps."""

import numpy as np
import pytest
import torch
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.modernbert import modeling_modernbert

from attncli import load_model
from attncli.features.explain import explain_row
from attncli.models.head import one_head
from attncli.models.transformers_peer import load_reference

TEXT = "the big cat sat on it"
NEAR = {"abs": 1e-4, "rel": 1e-4}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}


@pytest.fixture
def taken(tiny):
    """`taken("mpnet")` -> a head of a small random model, the text's tokens, and transformers' network."""

    def take(family, layer=1, head=2, **changes):
        directory = tiny(family, **changes)
        model = load_model(str(directory), "cpu", engine="attncli")
        tokens = model.tokenizer.encode(TEXT)
        theirs = load_reference(directory, torch.device("cpu"), torch.float32)
        return one_head(model, tokens, layer, head, "padding"), tokens, theirs

    return take


def spied(monkeypatch, module, name):
    """Record the arguments and results of a function of transformers, call by call."""
    calls = []
    function = getattr(module, name)

    def spy(*given, **named):
        calls.append((given, named, function(*given, **named)))
        return calls[-1][-1]

    monkeypatch.setattr(module, name, spy)
    return calls


def add_up(explained):
    """Every number follows from those before it, and they lead to the model's own weight."""
    for key in explained["keys"]:
        assert key["score"] == pytest.approx(float(np.dot(explained["query"]["q"], key["k"])), **NEAR)
        assert key["scaled"] == pytest.approx(key["score"] * explained["scale"], **NEAR)
        added = key["scaled"] + sum(key.get("terms", {}).values())
        assert key.get("added", key["scaled"]) == pytest.approx(added, **NEAR)
        assert key["raised"] == pytest.approx(np.exp(added - explained["largest"]) if key["allowed"] else 0, **NEAR)
        assert key["weight"] == pytest.approx(key["raised"] / explained["total"], abs=1e-5)


def test_rotary_queries_and_keys_before_and_after_they_are_turned(taken, monkeypatch):
    """Beside those that transformers gives to its rotation, and gets from it, in a global and in a local layer."""
    calls = spied(monkeypatch, modeling_modernbert, "apply_rotary_pos_emb")
    bases = []
    for layer in (0, 1):
        head, tokens, theirs = taken("modernbert", layer, local_attention=6)
        calls.clear()
        theirs.run(tokens, "padding")
        (query, key, *_), _, turned = calls[layer]
        for name, before, after in (("query", query, turned[0]), ("key", key, turned[1])):
            np.testing.assert_allclose(head.before[name], before[0, 2], atol=1e-4)
            np.testing.assert_allclose(getattr(head, name), after[0, 2], atol=1e-4)
        explained = explain_row(head.record, 3, head)
        add_up(explained)
        unturned = (query[0, 2, 3] * key[0, 2]).sum(-1)
        assert [one["unturned"] for one in explained["keys"]] == pytest.approx(unturned.tolist(), **NEAR)
        bases.append(explained["rotary"]["base"])
        assert [one["allowed"] for one in explained["keys"]] == [
            layer == 0 or abs(j - 3) <= 3 for j in range(len(tokens))
        ]
    assert bases[0] != bases[1]


def test_a_relative_bias_is_transformers_and_stands_in_its_row(taken):
    head, tokens, theirs = taken("mpnet")
    encoder = theirs.network.encoder
    with torch.no_grad():
        bias = encoder.compute_position_bias(torch.zeros(1, len(tokens), 1))[0, 2]
    np.testing.assert_allclose(head.record.vectors.terms["position"][0], bias, atol=1e-6)
    explained = explain_row(head.record, 3, head)
    add_up(explained)
    table = encoder.relative_attention_bias.weight
    for key in explained["keys"]:
        assert key["terms"]["position"] == pytest.approx(table[key["row"], 2].item(), abs=1e-6)


@pytest.mark.parametrize("kinds", [["c2p", "p2c"], ["p2c"], ["c2p"]])
def test_disentangled_terms_are_transformers(taken, monkeypatch, kinds):
    """Both together, as it computes them; each by itself where the network has one only."""
    changes = {**DISENTANGLED, "pos_att_type": kinds}
    head, tokens, theirs = taken("deberta-v2", **changes)
    attention = modeling_deberta_v2.DisentangledSelfAttention
    calls = spied(monkeypatch, attention, "disentangled_attention_bias")
    theirs.run(tokens, "padding")
    expected = calls[1][-1].reshape(-1, len(tokens), len(tokens))[2].detach()
    terms = head.record.vectors.terms
    assert len(terms) == len(kinds)
    np.testing.assert_allclose(sum(term[0] for term in terms.values()), expected, atol=1e-4)
    explained = explain_row(head.record, 3, head)
    add_up(explained)
    assert explained["scale"] == pytest.approx((8 * (1 + len(kinds))) ** -0.5)


# --- kept queries and keys -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["modernbert", "bert"])
def test_what_positions_turned_can_be_turned_back(family, tiny):
    """Compare with the projections, x W + b, for every token, for some, and from a file."""
    model = load_model(str(tiny(family)), "cpu")
    record = model.attend("the cat sat on it", vectors="all", layers=[0, 1])
    assert (record.vectors.rotation is not None) == (family == "modernbert")
    few = record.vectors.between(slice(1, 4), np.array([2, 4]))
    for layer, head in record.vectors.heads:
        taken = one_head(model, record.tokens, layer, head, "padding")
        unturned = [taken.before["query"], taken.before["key"]]
        for found, expected in zip(record.vectors.before(layer, head), unturned, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)
        for found, expected, some in zip(few.before(layer, head), unturned, ([1, 2, 3], [2, 4]), strict=True):
            np.testing.assert_allclose(found, expected[some], atol=1e-5)
