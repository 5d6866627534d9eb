"""run --terms, and --measure norm."""

import json

import numpy as np
import pytest

from attncli import load_model

TEXT = "the big cat sat on it"
WHERE = ("-l", "1", "-H", "2")


@pytest.fixture(scope="module")
def deberta(tiny):
    return tiny("deberta-v2", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8)


def test_the_parts_are_those_of_the_record_and_add_up_to_its_weights(attncli, deberta):
    printed = json.loads(attncli("run", "-m", deberta, *WHERE, "--terms", "--json", TEXT).out)
    [entry] = printed["records"][0]["attention"]
    parts = {name: np.array(part) for name, part in entry["terms"].items()}
    assert list(parts) == ["content", "content to position", "position to content"]
    raised = np.exp(sum(parts.values()))
    np.testing.assert_allclose(raised / raised.sum(-1, keepdims=True), entry["weights"], atol=1e-5)
    vectors = load_model(str(deberta), "cpu").attend(TEXT, layers=1, heads=2, vectors="all").vectors
    for name, part in vectors.parts(1, 2).items():
        np.testing.assert_allclose(parts[name], part, atol=1e-5)
    shown = attncli("run", "-m", deberta, *WHERE, "--terms", TEXT).out
    assert f"{parts['position to content'][3, 4]:.2f}" in shown and "score = content + " in shown


def test_the_terminal_shows_shares_of_rows(attncli, minilm):
    record = minilm.attend(TEXT, layers=3, measure="norm")
    shown = attncli("run", TEXT, "--measure", "norm", "-l", "3", "-H", "2").out
    assert "share of norm" in shown
    row = record.map(3, 2)[0]
    strongest = int(row.argmax())
    assert f"{record.tokens.text[strongest]} {row[strongest] / row.sum():.3f}" in shown
