"""--measure norm and --words, of the commands that show maps."""

import json

import numpy as np
import pytest
import torch
from foreign_checkpoints import make_foreign
from nearness import same_weights
from transformers import T5ForConditionalGeneration

from attncli import load_model, load_record
from attncli.record.grouping import merge_words
from attncli.record.selection import Grouping

WRITTEN = "a cat on"
TEXT = "The embeddings fit in the suitcase."
NORM = ("--measure", "norm")


@pytest.fixture
def record(minilm):
    return minilm.attend(TEXT, layers=3, measure="norm")


def test_run_prints_and_saves_the_norms(attncli, record, tmp_path):
    ran = json.loads(attncli("run", TEXT, *NORM, "-l", "3", "--json", "-o", str(tmp_path / "norms.npz")).out)
    assert ran["records"][0]["measure"] == "norm"
    for one in ran["records"][0]["attention"]:
        np.testing.assert_allclose(one["weights"], record.map(3, one["head"]), atol=1e-5)
    saved = load_record(tmp_path / "norms.npz")
    assert saved.measure == "norm"
    np.testing.assert_allclose(saved.weights, record.weights, atol=1e-5)


def test_the_terminal_shows_shares_of_rows(attncli, record):
    shown = attncli("run", TEXT, *NORM, "-l", "3", "-H", "2").out
    assert "share of norm" in shown
    row = record.map(3, 2)[0]
    strongest = int(row.argmax())
    assert f"{record.tokens.text[strongest]} {row[strongest] / row.sum():.3f}" in shown


def test_words_are_put_together_in_run(attncli, minilm):
    ran = json.loads(attncli("run", TEXT, "--words", "-l", "3", "--json").out)["records"][0]
    merged = merge_words(minilm.attend(TEXT, layers=3))
    assert ran["tokens"] == merged.tokens.text and "embeddings" in ran["tokens"]
    np.testing.assert_allclose(ran["attention"][5]["weights"], merged.map(3, 5), atol=1e-6)


def test_heatmap_says_norm_at_its_scale(attncli, tmp_path):
    path = tmp_path / "norm.svg"
    assert attncli("heatmap", TEXT, *NORM, "--no-special", "-o", str(path)).err == "attncli: without [CLS], [SEP]\n"
    drawn = path.read_text()
    assert drawn.count(">norm<") == 1 and "· norm ·" in drawn.replace("\xa0", " ") and "attention weight" not in drawn


def test_view_draws_shares_of_rows_under_every_mask(attncli, tmp_path):
    path = tmp_path / "norm.html"
    assert attncli("view", TEXT, *NORM, "--mask", "none,causal", "-o", str(path)).code == 0
    page = path.read_text()
    assert '"measure":"share of norm"' in page and '"causal"' in page and '"none"' in page


def test_vectors_are_of_weights_between_pieces(refused, tmp_path):
    path = str(tmp_path / "maps.npz")
    assert "of pieces, not of words" in refused("run", TEXT, "--words", "--vectors", "5.0", "-o", path)
    assert "belong to weights, not norms" in refused("run", TEXT, *NORM, "--vectors", "5.0", "-o", path)


@pytest.mark.parametrize("command", ["heatmap", "view"])
def test_a_saved_record_is_what_it_is(refused, attncli, command, tmp_path):
    path = tmp_path / "maps.npz"
    attncli("run", TEXT, "-o", str(path))
    assert "--measure has no effect with --from" in refused(command, "--from", str(path), *NORM)


def test_norms_are_the_same_whoever_runs_the_model(attncli):
    ours, theirs = (
        json.loads(attncli("run", TEXT, *NORM, "-l", "3", "--json", *engine).out)["records"][0]["attention"]
        for engine in ((), ("--engine", "transformers"))
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one["weights"], other["weights"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("words", [False, True])
def test_norms_of_cross_attention_are_of_what_was_read(tmp_path, words):
    """By transformers' own modules: weights times the lengths of v W_O, of a decoder that is fed fewer tokens."""
    made = make_foreign(tmp_path, "t5")
    model, text = load_model(str(made), "cpu"), "the cat sat on the mat"
    grouping = {"grouping": Grouping(words=True)} if words else {}
    found = model.attend(text, measure="norm", target=WRITTEN, **grouping)
    weights = model.attend(text, target=WRITTEN, **grouping)
    if words:
        assert found.weights.shape == weights.weights.shape != model.attend(text, target=WRITTEN).weights.shape
        return
    network, read = T5ForConditionalGeneration.from_pretrained(made).eval(), model.tokenizer.encode(text).ids
    values, hooks = {}, []
    for number, block in enumerate(network.decoder.block):
        attention = block.layer[1].EncDecAttention
        hooks.append(
            attention.v.register_forward_hook(lambda *call, number=number: values.update({number: call[2][0]}))
        )
    fed = torch.tensor([[0, *model.tokenizer.encode(WRITTEN).ids[:-1]]])
    with torch.inference_mode():
        network(input_ids=torch.tensor([read]), decoder_input_ids=fed)
        for number, block in enumerate(network.decoder.block):
            by_head = block.layer[1].EncDecAttention.o.weight.unflatten(1, (4, -1))
            brought = torch.einsum("khd,rhd->hkr", values[number].unflatten(-1, (4, -1)), by_head).norm(dim=-1)
            assert same_weights(found.weights[number], weights.weights[number] * brought[:, None].numpy())
