"""attncli stats: a corpus in, figures of every head out."""

import csv
import json
from contextlib import contextmanager

import numpy as np
import pytest

from attncli.corpus.reducer import Reducer
from attncli.corpus.sums import FIGURES

LINES = ["The cat sat on the mat.", "No.", "The dog, the cat and the mouse did not sit.", "It is too big."] * 3


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES))
    return path


@contextmanager
def interrupted(steps: int):
    """Ctrl-C after so many steps; batches are small, so that there are several."""
    whole = Reducer.count

    def count(self, texts):
        self.batch_tokens = 20
        for number, one in enumerate(whole(self, texts)):
            if number == steps:
                raise KeyboardInterrupt
            yield one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reducer, "count", count)
        yield


def figures(document) -> np.ndarray:
    return np.array([list(head["figures"].values()) for head in document["heads"]])


def test_json_has_every_head_with_its_figures(attncli, corpus, minilm):
    result = attncli("stats", "--json", corpus)
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["texts"], document["partial"], document["mask"]) == (12, False, "padding")
    assert document["tokens"] == sum(len(minilm.tokenizer.encode(line)) for line in LINES)
    assert [(head["layer"], head["head"]) for head in document["heads"]] == [
        (layer, head) for layer in range(6) for head in range(12)
    ]
    assert set(document["heads"][0]["figures"]) == set(document["heads"][0]["spread"]) == set(FIGURES)
    assert document["heads"][2]["label"] == "previous"  # minilm's 0.2
    assert document["heads"][2]["strength"] == document["heads"][2]["figures"]["previous"] > 0.8


@pytest.mark.slow
def test_saved_in_every_form_and_shown_again_without_the_corpus(attncli, corpus, tmp_path):
    paths = [tmp_path / name for name in ("stats.csv", "stats.json", "atlas.svg")]
    result = attncli("stats", corpus, *(part for path in paths for part in ("-o", path)))
    assert (result.code, result.out.split()) == (0, [str(path) for path in paths])
    document = json.loads(attncli("stats", "--json", corpus).out)
    assert json.loads((tmp_path / "stats.json").read_text()) == document
    with (tmp_path / "stats.csv").open(newline="") as file:
        assert [float(row["entropy"]) for row in csv.DictReader(file)] == [
            head["figures"]["entropy"] for head in document["heads"]
        ]
    shown = attncli("stats", "--from", tmp_path / "stats.json")
    assert (shown.code, shown.out) == (0, attncli("stats", corpus).out)
    assert attncli("stats", "--from", tmp_path / "stats.json", "-o", tmp_path / "again.csv").code == 0
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "stats.csv").read_text()


def test_several_files_a_limit_and_fields_of_json(attncli, corpus, tmp_path):
    whole = json.loads(attncli("stats", "--json", corpus, corpus).out)
    assert whole["texts"] == 24
    some = json.loads(attncli("stats", "--json", "--limit", "5", corpus).out)
    assert some["texts"] == 5
    fields = tmp_path / "corpus.jsonl"
    fields.write_text("\n".join(json.dumps({"body": line}) for line in LINES[:5]))
    assert json.loads(attncli("stats", "--json", "--field", "body", fields).out) == some
    assert json.loads(attncli("stats", "--json", "--paragraphs", corpus).out)["texts"] == 1


def test_an_interruption_prints_what_there_is_as_partial_and_saves_nothing(attncli, corpus, tmp_path):
    with interrupted(2):
        result = attncli("stats", "--json", "-o", tmp_path / "stats.csv", corpus)
        shown = attncli("stats", corpus)
    assert result.code == 130
    document = json.loads(result.out)
    assert document["partial"] is True
    assert 0 < document["texts"] < 12
    assert "PARTIAL" in result.err
    assert not (tmp_path / "stats.csv").exists()
    assert "PARTIAL" in shown.out.splitlines()[0]


def test_an_interruption_before_anything_was_counted_prints_nothing(attncli, corpus):
    with interrupted(0):
        assert attncli("stats", corpus) == (130, "", "")


def test_requests_that_cannot_be_met(refused, corpus):
    assert "no corpus" in refused("stats")
    assert "omit one of them" in refused("stats", "--paragraphs", "--field", "text", corpus)
    assert "1 to 510" in refused("stats", "--stride", "511", corpus)
    assert "--device has no effect with --on ray" in refused("stats", "--on", "ray", "--device", "cpu", corpus)
    corpus.write_text("\n\n")
    assert "no text" in refused("stats", corpus)


# --- a saved record ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".json", ".safetensors"])
def test_the_maps_of_a_saved_record_are_counted(suffix, attncli, minilm, tmp_path):
    text, path = "The unbelievable cat sat on the mat.", tmp_path / f"maps{suffix}"
    minilm.attend(text).save(path)
    (tmp_path / "text.txt").write_text(text + "\n", encoding="utf-8")
    for options in ([], ["--words"]):
        counted, expected = (attncli("stats", *how, *options) for how in (("--from", path), (tmp_path / "text.txt",)))
        assert counted.code == expected.code == 0, counted.err
        assert counted.out == expected.out


def test_what_is_neither_statistics_nor_a_record(refused, minilm, tmp_path):
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    assert "no complete attncli statistics" in refused("stats", "--from", tmp_path / "a.json")
    minilm.attend("The cat sat.", layers=1).save(tmp_path / "one.npz")
    assert "save the record without -l and -H" in refused("stats", "--from", tmp_path / "one.npz")
    assert "--mask has no effect" in refused("stats", "--from", tmp_path / "one.npz", "--mask", "none")
