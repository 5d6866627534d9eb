"""--measure norm and --words, of the commands that show maps."""

import json

import numpy as np
import pytest

from attncli import load_record

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
