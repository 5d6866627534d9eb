"""Records of networks whose heads have sinks: rows sum to at most 1, in every file."""

import json
from dataclasses import replace

import numpy as np
import pytest
from saved_records import same

from attncli import load_record, record_of
from attncli.base.errors import RequestError
from attncli.record.display import notes

TEXT = "the cat sat on the mat"
TOKENS = ["a", "b", "c"]


@pytest.fixture
def record(foreign):
    return foreign("gpt_oss").attend(TEXT, vectors="all")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_it_is_read_as_it_was_saved(record, tmp_path, suffix):
    assert record.sinks and record.weights.sum(axis=-1).min() < 0.9
    record.save(tmp_path / f"a{suffix}")
    same(load_record(tmp_path / f"a{suffix}"), record)


def test_the_sinks_are_those_of_the_network(record, foreign):
    parameters = dict(foreign("gpt_oss").network.named_parameters())
    for layer, head in record.vectors.heads:
        sinks = parameters[f"model.layers.{layer}.self_attn.sinks"]
        assert record.vectors.sink(layer, head) == pytest.approx(sinks[head].item())
    some = record.select(2, [3, 1])
    assert some.sinks and some.vectors.sink(2, 3) == record.vectors.sink(2, 3)


def test_a_json_document_says_so(record, tmp_path):
    record.save(tmp_path / "a.json")
    found = load_record(tmp_path / "a.json")
    assert found.sinks and np.array_equal(found.weights, record.weights)
    assert json.loads((tmp_path / "a.json").read_text())["records"][0]["sinks"] is True


def test_only_a_record_that_says_so_may_have_rows_below_1(record, tmp_path):
    replace(record, sinks=False).save(tmp_path / "a.npz")
    with pytest.raises(RequestError, match=r"sums to .* and not to 1: if heads have sinks .* save it again"):
        load_record(tmp_path / "a.npz")
    below = np.full((1, 1, 3, 3), 0.25)
    assert record_of(below, TOKENS, sinks=True).sinks
    with pytest.raises(RequestError, match=r"sums to 0\.75 and not to 1"):
        record_of(below, TOKENS)
    with pytest.raises(RequestError, match=r"sums to 1\.2 and not to at most 1"):
        record_of(np.full((1, 1, 3, 3), 0.4), TOKENS, sinks=True)


@pytest.mark.parametrize(
    ("sinks", "line"),
    [(np.zeros(1, np.float32), "sinks are float32"), (np.zeros(12), "float64"), (np.full(12, np.nan, "f4"), "no")],
)
def test_sinks_that_don_t_fit_are_refused(record, tmp_path, sinks, line):
    replace(record, vectors=replace(record.vectors, sinks=sinks)).save(tmp_path / "a.npz")
    with pytest.raises(RequestError, match=line):
        load_record(tmp_path / "a.npz")


def test_the_missing_part_of_rows_is_told(record):
    rest = 1 - record.weights.sum(axis=-1, dtype=np.float64).mean()
    [said] = notes(record)
    assert said.endswith(f"goes to no token: {rest:.0%} of it, on average")
