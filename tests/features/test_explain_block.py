"""explain --block: every station is what transformers' modules give, and the figures are of these vectors."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel

from attncli import load_model
from attncli.features.explain import explain_block
from attncli.models.head import one_head

TEXT = "the cat sat on a mat"
POST_NORM = ["x", "attention", "head 1", "sum", "norm", "feed-forward", "sum", "norm"]
PRE_NORM = ["x", "norm", "attention", "head 1", "sum", "norm", "feed-forward", "sum"]
# Of transformers' layer: the modules whose outputs are the stations, by the place of a station.
BERT = {1: "attention.output.dense", 4: "attention.output.LayerNorm", 5: "output.dense", 7: "output.LayerNorm"}
GPT2 = {1: "ln_1", 2: "attn.c_proj", 5: "ln_2", 6: "mlp.c_proj"}
LLAMA = {1: "input_layernorm", 2: "self_attn.o_proj", 5: "post_attention_layernorm", 6: "mlp.down_proj"}
LAYERS = {"bert": "encoder.layer", "gpt2": "h", "llama": "layers"}


def block_of(path, layer=1, text=TEXT, query=2):
    model = load_model(str(path), "cpu", engine="attncli")
    tokens = model.tokenizer.encode(text)
    head = one_head(model, tokens, layer, 1, None)
    return tokens, explain_block(model, head.record, query)


@pytest.mark.parametrize(
    ("family", "names", "modules"), [("bert", POST_NORM, BERT), ("gpt2", PRE_NORM, GPT2), ("llama", PRE_NORM, LLAMA)]
)
def test_every_station_is_the_output_of_transformers_module(tiny, family, names, modules):
    path = tiny(family)
    tokens, found = block_of(path, layer=1)
    theirs = AutoModel.from_pretrained(path).eval()
    layer = theirs.get_submodule(f"{LAYERS[family]}.1")
    kept = {}
    for place, name in modules.items():
        layer.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, place=place: kept.update({place: output[0, 2]})
        )
    with torch.no_grad():
        states = theirs(torch.tensor([tokens.ids]), output_hidden_states=True).hidden_states
    assert [one["name"] for one in found if one["name"] != "end of the layer"] == names
    kept[0] = states[1][0, 2]
    kept[len(found) - 1] = states[2][0, 2]  # after the network's last norm, if it has one
    for place, vector in kept.items():
        np.testing.assert_allclose(found[place]["vector"], vector.numpy(), atol=2e-5, err_msg=str(place))


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma2", "olmo2", "gpt_neox", "modernbert", "deberta-v2"])
def test_what_is_added_makes_the_sums_and_the_figures_are_of_the_vectors(tiny, family):
    for layer in (0, 1):
        _, found = block_of(tiny(family), layer)
        x = stream = np.array(found[0]["vector"])
        added = None
        for one in found:
            vector = np.array(one["vector"])
            length = np.linalg.norm(vector)
            assert one["length"] == pytest.approx(length)
            assert one["cosine"] == pytest.approx(vector @ x / length / np.linalg.norm(x), abs=1e-9)
            if one["kind"] == "added":
                added = vector
                assert one["share"] == pytest.approx(length / np.linalg.norm(stream))
            if one["name"] == "sum":
                np.testing.assert_allclose(vector, stream + added, atol=1e-5)
            if one["kind"] == "stream":
                stream = vector
        assert [one["kind"] for one in found].count("added") == 2


def test_heads_together_are_what_attention_adds(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="attncli")
    tokens = model.tokenizer.encode(TEXT)
    parts = []
    for head in range(model.heads):
        found = {one["name"]: one for one in explain_block(model, one_head(model, tokens, 0, head, None).record, 1)}
        parts.append(found[f"head {head}"]["vector"])
    bias = model.network.layer(0).attention.output.bias.detach().numpy()
    np.testing.assert_allclose(np.sum(parts, axis=0) + bias, found["attention"]["vector"], atol=1e-5)


def test_the_control_is_the_mean_over_the_other_real_tokens(tiny):
    model = load_model(str(tiny("bert")), "cpu", engine="attncli")
    record = one_head(model, model.tokenizer.encode(TEXT, None, 12), 1, 0, None).record
    real = [place for place, padding in enumerate(record.tokens.padding) if not padding]
    assert len(real) < len(record.tokens)
    of_each = [explain_block(model, record, place) for place in real]
    for station, found in enumerate(of_each[2]):
        for name, figure in found["others"].items():
            expected = np.mean([one[station][name] for place, one in enumerate(of_each) if place != 2])
            assert figure == pytest.approx(expected)


def test_it_is_printed_and_in_the_document(attncli, tiny, tmp_path):
    where = ("explain", "-m", tiny("bert"), TEXT, "-l", "1", "-H", "1", "--query", "cat", "--block")
    shown = attncli(*where).out
    assert shown.count("\n = sum") == 2 and "   of it: head 1" in shown and " + feed-forward" in shown
    document = json.loads(attncli(*where, "--json").out)
    assert [one["name"] for one in document["block"]] == POST_NORM and document["keys"]
    attncli(*where, "-o", tmp_path / "a.csv")
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(POST_NORM)
    assert "block" not in json.loads(attncli(*where[:-1], "--json").out)


def test_what_can_not_be_followed(refused, tiny, foreign, tmp_path):
    where = ("explain", "-m", tiny("bert"), TEXT)
    assert "--block has no effect on .svg, which does not show it" in refused(*where, "--block", "-o", "a.svg")
    assert "unknown in a network that transformers runs" in refused(
        "explain", "-q", "-m", foreign("opt").place.path, TEXT, "--block"
    )
