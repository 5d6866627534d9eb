"""One head of a network that transformers runs, from q, k and v as they meet, beside its own eager attention."""

import numpy as np
import pytest
import torch
from nearness import eager

from attncli.features.explain import UNKNOWN, ExplainedRow, explain_row
from attncli.models.head import one_head
from attncli.page.vectors import weights as page_weights
from attncli.record import Request
from attncli.record.selection import Choice, select_heads

TEXT = "the cat sat on the mat"
TARGET = "a cat"
LAYER, HEAD = 1, 1

# Family and part, the module whose input are the joined heads of a layer, and the names of terms.
PARTS = [
    ("gpt2", "decoder", "h.1.attn.c_proj", []),
    ("llama", "decoder", "layers.1.self_attn.o_proj", []),
    ("gemma2", "decoder", "layers.1.self_attn.o_proj", ["softcap"]),
    ("gpt_oss", "decoder", "layers.1.self_attn.o_proj", []),
    ("t5", "encoder", "encoder.block.1.layer.0.SelfAttention.o", ["position"]),
    ("t5", "decoder", "decoder.block.1.layer.0.SelfAttention.o", ["position"]),
    ("t5", "cross", "decoder.block.1.layer.1.EncDecAttention.o", None),
    ("bart", "cross", "decoder.layers.1.encoder_attn.out_proj", []),
]
NAMES = [f"{family}-{part}" for family, part, *_ in PARTS]


@pytest.fixture(params=PARTS, ids=NAMES)
def case(request, foreign):
    """A part of a model, a text's tokens, a head of it, and transformers' maps and joined heads `[query, head_dim]`."""
    family, part, joins, terms = request.param
    model = foreign(family).of_part(part)
    target = TARGET if model.paired else None
    tokens = model.ready(model.tokenizer.encode(TEXT), target)
    given = {}
    with eager(model) as network, torch.no_grad():
        [module] = [module for name, module in network.named_modules() if name.endswith(joins)]
        hook = module.register_forward_pre_hook(lambda _, inputs: given.update(joined=inputs[0][0]))
        read = getattr(tokens, "encoder_input", tokens)
        inputs = {"input_ids": torch.tensor([read.ids])}
        if model.paired:
            inputs["decoder_input_ids"] = torch.tensor([model.decoder_input(read, TARGET)[0].ids])
        made = network(**inputs, output_attentions=True)
        hook.remove()
    maps = made[f"{part}_attentions" if part == "cross" or model.paired else "attentions"][LAYER][0]
    size = model.head_dim
    joined = given["joined"].unflatten(-1, (-1, size))
    taken = one_head(model, tokens, LAYER, HEAD, None)
    return model, tokens, taken, maps, joined, terms


def test_its_steps_lead_to_their_weights_and_outputs(case):
    model, tokens, taken, maps, joined, terms = case
    explained = explain_row(taken.record, 2, taken)
    for key in explained["keys"]:
        assert key["score"] == pytest.approx(float(np.dot(explained["query"]["q"], key["k"])), abs=1e-4)
        added = key["scaled"] + sum(key.get("terms", {}).values())
        assert key["raised"] == pytest.approx(np.exp(added - explained["largest"]) if key["allowed"] else 0, abs=1e-5)
        assert key["computed"] == pytest.approx(key["raised"] / explained["total"], abs=1e-6)
    theirs = maps[HEAD, 2].tolist()
    assert [key["weight"] for key in explained["keys"]] == pytest.approx(theirs, abs=1e-5)
    assert [key["computed"] for key in explained["keys"]] == pytest.approx(theirs, abs=1e-5)
    assert explained["output"] == pytest.approx(joined[2, HEAD].tolist(), rel=1e-4, abs=1e-4)
    assert terms is None or list(explained["keys"][0].get("terms", {})) == terms
    assert "x" not in explained["query"] and any(
        part.text == UNKNOWN for part in ExplainedRow(explained).report().parts[:1]
    )
    if model.part == "cross":
        assert [key["token"] for key in explained["keys"]] == tokens.encoder_input.text


def test_its_vectors_make_the_weights(case):
    """Compute the weights of all heads with the record's formula, as a page does."""
    model, tokens, _, maps, *_ = case
    [record] = model.attend_tokens([tokens], Request(LAYER, "all", vectors="all", which=None))
    vectors = record.vectors
    parts = [part.astype(np.float64) for part in (vectors.query, vectors.key, *vectors.terms.values())]
    made = page_weights(parts, vectors.scale[:, None, None], record.masks, vectors.sinks.astype(np.float64))
    np.testing.assert_allclose(made, maps, atol=1e-5)
    for place, (layer, head) in enumerate(
        select_heads("all", Choice([LAYER], list(range(model.heads))), model.layers, model.heads)
    ):
        raised = np.exp(sum(vectors.parts(layer, head).values())) * record.masks[0]
        sink = vectors.sink(layer, head)
        total = raised.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink))
        np.testing.assert_allclose(raised / total, maps[place], atol=1e-5)


def test_a_sink_is_a_part_of_the_row_s_total(foreign):
    model = foreign("gpt_oss")
    taken = one_head(model, model.tokenizer.encode(TEXT), LAYER, HEAD, None)
    explained = explain_row(taken.record, 3, taken)
    sinks = dict(model.network.named_parameters())[f"model.layers.{LAYER}.self_attn.sinks"]
    assert explained["sink"]["score"] == pytest.approx(sinks[HEAD].item())
    raised = [key["raised"] for key in explained["keys"]]
    assert explained["total"] == pytest.approx(sum(raised) + np.exp(sinks[HEAD].item() - explained["largest"]))
    rest = 1 - sum(key["weight"] for key in explained["keys"])
    assert rest == pytest.approx(explained["sink"]["raised"] / explained["total"], abs=1e-5) and rest > 0.001
    assert f"the head's sink takes {rest:.3f} of the row, which goes to no token" in str(ExplainedRow(explained))
