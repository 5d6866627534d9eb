"""attncli mask: maps under masks, what moved, laws."""

import json

import numpy as np
import pytest

from attncli.analysis.masking import total_variation
from attncli.checks import masking

TEXT = "The trophy does not fit in the suitcase."


def test_maps_effects_and_laws_are_shown(attncli):
    result = attncli("mask", "-l", "2", "-H", "9", TEXT)
    assert result.code == 0 and result.err == ""
    for words in ("2.9 unmasked", "2.9 causal", "2.9 padding", "4 [PAD]", "forgetting the padding mask", "holds"):
        assert words in result.out


def test_json_gives_the_library_s_numbers(attncli, minilm):
    document = json.loads(attncli("mask", "--json", "-l", "0,4", "-H", "1,3", "--pad-to", "16", TEXT).out)
    [text] = document["texts"]
    assert text["lawful"] is True
    assert text["tokens"][-5:] == ["[PAD]"] * 5
    assert [(head["layer"], head["head"]) for head in text["heads"]] == [(0, 1), (0, 3), (4, 1), (4, 3)]
    for head in text["heads"]:
        where = {"layers": head["layer"], "heads": head["head"], "pad_to": 16}
        unmasked, causal = (minilm.attend(TEXT, mask=name, **where).weights[0, 0, :11] for name in ("none", "causal"))
        assert head["causal"]["moved"] == pytest.approx(float(np.mean(total_variation(causal, unmasked))))
        assert head["causal"]["forbidden"] == head["padding"]["forbidden"] == 0
    unmasked = minilm.attend(TEXT, mask="none", pad_to=16).weights[:, :, :11, 11:].sum(axis=-1).mean(axis=(1, 2))
    assert list(text["laws"][1]["leaks"].values()) == pytest.approx(unmasked.tolist(), rel=1e-4)
    assert [law["name"] for law in text["laws"]] == ["padding", "forgotten padding mask", "causal", "permutation"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_drawn(attncli, tmp_path, suffix):
    path = tmp_path / f"masks{suffix}"
    result = attncli("mask", "-l", "2", "-H", "0,9", "-o", path, TEXT)
    assert (result.code, result.out.strip()) == (0, str(path))
    assert path.stat().st_size > 1000
    if suffix == ".svg":
        assert all(words in path.read_text() for words in ("unmasked", "causal", "padding", "layer 2 head 9", "trophy"))


def test_a_broken_law_is_exit_code_1(attncli, monkeypatch):
    monkeypatch.setattr(masking.Look, "lawful", property(lambda self: False))
    assert attncli("mask", TEXT).code == 1


def test_every_text_of_a_file(attncli, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one cat\ntwo cats\n", encoding="utf-8")
    assert len(json.loads(attncli("mask", "--json", "-f", path).out)["texts"]) == 2
    assert "2 texts" in attncli("mask", "-f", path, "-o", tmp_path / "masks.png").err
