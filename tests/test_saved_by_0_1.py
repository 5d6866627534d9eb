"""Files that version 0.1.0 saved are still read, and say what it printed: tests/saved_by_0_1/README.md has how."""

import io
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import attncli
from attncli.cli.app import main

FOLDER = Path(__file__).parent / "saved_by_0_1"
PRINTED = json.loads((FOLDER / "printed.json").read_text(encoding="utf-8"))


@pytest.fixture
def program(capsys, monkeypatch):
    """`program("stats", ...)` -> what it printed on stdout."""

    def run(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        capsys.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert end.value.code in (0, None), err
        return out

    return run


@pytest.mark.parametrize("name", ["record.npz", "texts.safetensors", "norm.npz"])
def test_records_hold_what_was_printed_when_they_were_saved(name):
    records = attncli.load_records(FOLDER / name)
    entries = PRINTED[Path(name).stem]["records"]
    assert [record.tokens.text for record in records] == [entry["tokens"] for entry in entries]
    for record, entry in zip(records, entries, strict=True):
        assert (record.layers, record.heads) == ([0, 3], [1, 2])
        assert (record.measure, record.mask_name) == (entry.get("measure", "weight"), entry["mask"])
        assert record.model.document() == PRINTED[Path(name).stem]["model"]
        for one in entry["attention"]:
            assert np.array_equal(record.map(one["layer"], one["head"]), np.float32(one["weights"]))


def test_vectors_are_those_that_explain_printed():
    [record] = attncli.load_records(FOLDER / "neurons.npz")
    assert record.vectors.heads == [(3, 1)]
    query, key = record.vectors.of(3, 1)
    place = record.tokens.text.index("cat")
    # `explain` takes a head apart on its own, and rounds otherwise than a whole run.
    assert np.allclose(query[place], PRINTED["neurons"]["query"], atol=1e-5)
    assert np.allclose(key[0], PRINTED["neurons"]["key"], atol=1e-5)


def test_a_cross_attention_keeps_its_two_texts():
    [record] = attncli.load_records(FOLDER / "cross.npz")
    [aligned] = PRINTED["cross"]["alignments"]
    assert record.kind == "cross"
    assert "".join(record.tokens.text) == "".join(aligned["emitted"])
    assert "".join(record.key_tokens.text).replace("␣", " ") == "".join(aligned["characters"])
    assert np.array_equal(record.map(0, 0), np.float32(aligned["attention"][0]["weights"]))


@pytest.mark.parametrize("name", ["record.npz", "neurons.npz", "norm.npz", "cross.npz"])
def test_records_are_drawn(program, tmp_path, name):
    [record] = attncli.load_records(FOLDER / name)
    picture = tmp_path / "map.svg"
    assert program("heatmap", "--from", FOLDER / name, "-H", record.heads[0], "-o", picture) == f"{picture}\n"
    assert all(f">{token}<" in picture.read_text(encoding="utf-8") for token in record.tokens.text)


def test_a_corpus_has_the_figures_that_it_had(program, tmp_path):
    typed = ("stats", FOLDER / "corpus.txt", "--state", tmp_path / "state", "--json")
    found, printed = json.loads(program(*typed)), PRINTED["state"]
    assert (found["texts"], found["tokens"]) == (printed["texts"], printed["tokens"]) == (6, 75)
    assert found["entropy_limit"] == pytest.approx(printed["entropy_limit"])
    heads = {(head["layer"], head["head"]): head for head in found["heads"]}
    for head in printed["heads"]:
        same = heads[head["layer"], head["head"]]
        assert same["label"] == head["label"]
        for kind in ("figures", "spread"):
            same[kind]["same_word"] = head[kind]["same_word"]  # 0.1 took it over all tokens
            assert same[kind] == pytest.approx(head[kind], abs=1e-5)
