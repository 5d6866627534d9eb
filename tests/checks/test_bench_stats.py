"""What `attncli bench stats` measures: the same figures on both sides, and memory of a process of its own."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from attncli import load_model
from attncli.base.errors import RequestError
from attncli.checks import bench_stats as measuring
from attncli.checks.bench_stats import Plan, bench_stats, by_transformers, make_corpus, read, run_apart
from attncli.corpus.reducer import Reducer
from attncli.models.transformers_peer import load_reference

SMALL = Plan(texts=6, rounds=1, lines=(2, 5), long=90)


@pytest.fixture
def model(tiny):
    return load_model(str(tiny()), device="cpu")


@pytest.mark.slow
def test_a_corpus_has_texts_of_all_lengths_and_is_the_same_every_time(minilm, tmp_path):
    made = make_corpus(minilm, tmp_path / "a.txt", 60).read_text()
    lengths = [len(minilm.tokenizer.encode(line)) for line in made.splitlines()]
    assert len(lengths) == 60
    assert min(lengths) < 20 and 180 < max(lengths) <= measuring.LONGEST
    assert np.mean(lengths) == pytest.approx((measuring.SHORTEST + measuring.LONGEST) / 2, rel=0.2)
    assert len(set(made.split())) < len(made.split()) / 3  # words are repeated
    assert make_corpus(minilm, tmp_path / "b.txt", 60).read_text() == made


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_both_sides_get_the_same_figures(tiny, tmp_path, family):
    model = load_model(str(tiny(family)), device="cpu")
    path = make_corpus(model, tmp_path / "corpus.txt", 40)
    reference = load_reference(model.place.path, model.device, torch.float32)
    found = Reducer(model).reduce(read(model, path))
    expected = by_transformers(reference, [window for [window] in read(model, path)], model.config.pad_id)
    assert (found.texts, found.queries) == (expected.texts, expected.queries)
    np.testing.assert_allclose(found.figures, expected.figures, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_document_says_what_was_measured(tiny, monkeypatch):
    done = []
    document = bench_stats(str(tiny()), SMALL, "cpu", lambda: done.append(1))
    assert len(done) == SMALL.steps
    speed = document["speed"]
    assert (speed["texts"], speed["rounds"]) == (6, 1)
    assert speed["ratio"] == pytest.approx(speed["seconds"]["transformers"] / speed["seconds"]["attncli"])
    assert 0 <= speed["largest_difference"] < 1e-5
    assert [one["lines"] for one in document["memory"]] == [2, 5]
    assert all(one["tokens"] > 0 and one["peak_bytes"] > 1e8 for one in document["memory"])
    long = document["long"]
    assert 60 < long["tokens"] <= 90
    assert long["map_bytes"] == 4 * long["heads"] * long["tokens"] ** 2
    assert (document["weights"], document["device"]) == ("pretrained", "cpu")
    json.dumps(document, allow_nan=False)


def test_an_alias_that_is_not_here_gets_random_weights(monkeypatch, tmp_path, tiny):
    config = json.loads((tiny() / "config.json").read_text())
    monkeypatch.setattr("attncli.models.random.find_alias", lambda name: (name, type("Entry", (), {"config": config})))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    directory, weights = measuring.checkpoint("bert-large", tmp_path)
    assert weights == "random"
    assert load_model(str(directory), device="cpu").config.hidden_size == config["hidden_size"]


@pytest.mark.slow
def test_a_process_that_fails_says_why(tmp_path):
    with pytest.raises(RequestError, match=r"a process of the benchmark failed: .*no model 'no-model'"):
        run_apart(Path("no-model"), tmp_path / "corpus.txt", torch.device("cpu"))
