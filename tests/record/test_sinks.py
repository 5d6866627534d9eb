"""Records of networks whose heads have sinks: rows sum to at most 1, in every file."""

from dataclasses import replace

import numpy as np
import pytest
from saved_records import same

from attncli import load_record, record_of
from attncli.base.errors import RequestError

TEXT = "the cat sat on the mat"
TOKENS = ["a", "b", "c"]


@pytest.fixture
def record(foreign):
    return foreign("gpt_oss").attend(TEXT, vectors="all")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json"])
def test_it_is_read_as_it_was_saved(record, tmp_path, suffix):
    assert record.sinks and record.weights.sum(axis=-1).min() < 0.9
    record.save(tmp_path / f"a{suffix}")
    found = load_record(tmp_path / f"a{suffix}")
    if suffix != ".json":
        same(found, record)
    assert found.sinks and np.array_equal(found.weights, record.weights)


def test_the_sinks_are_those_of_the_network(record, foreign):
    parameters = dict(foreign("gpt_oss").network.named_parameters())
    for layer, head in record.vectors.heads:
        sinks = parameters[f"model.layers.{layer}.self_attn.sinks"]
        assert record.vectors.sink(layer, head) == pytest.approx(sinks[head].item())
    some = record.select(2, [3, 1])
    assert some.sinks and some.vectors.sink(2, 3) == record.vectors.sink(2, 3)


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
