"""Records hold what is usual of their heads, in their files and where parts are taken of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attncli.analysis.edges import Usual, edges, with_usual
from attncli.base.errors import RequestError
from attncli.record.grouping import merge_words
from attncli.record.loading import load_record
from attncli.record.parts import UsualWeights

TEXT = "The trophy does not fit in the suitcase because it is too big."


@pytest.fixture(scope="module")
def others(minilm):
    return Usual.of(minilm.attend_many(["A cat sat on the mat.", "It was not a good film."]))


@pytest.fixture(scope="module")
def record(minilm, others):
    return with_usual(minilm.attend(TEXT), others)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_files_keep_it_and_the_edges_with_it(record, others, tmp_path, suffix):
    record.save(tmp_path / f"a{suffix}")
    found = load_record(tmp_path / f"a{suffix}")
    assert found.usual.texts == 2 and np.array_equal(found.usual.sums, record.usual.sums)
    plain = replace(record, usual=None)
    assert edges(found, Usual.of_text(found)) == edges(plain, Usual.with_text(plain, others))
    assert edges(found, Usual.of_text(found)) != edges(plain, Usual.of_text(plain))


def test_a_part_of_a_record_has_a_part_of_it_and_words_none(record):
    some = record.select([4, 1], [3])
    assert np.array_equal(some.usual.sums, record.usual.sums[[4, 1]][:, [3]])
    assert np.array_equal(some.usual.counts, record.usual.counts[[4, 1]])
    assert merge_words(replace(record, usual=record.usual)).usual is None


@pytest.mark.parametrize("sums", [np.zeros((6, 11, 15)), np.zeros((6, 12, 4)), np.full((6, 12, 15), np.nan), None])
def test_one_that_does_not_fit_is_refused(record, tmp_path, sums):
    broken = UsualWeights(np.zeros((6, 12, 15)) if sums is None else sums, np.zeros((6, 15)), 2)
    contents = replace(record, usual=broken).contents()
    numbers = {name: array for name, array in contents.numbers.items() if sums is not None or name != "usual_sums"}
    np.savez(tmp_path / "a.npz", **numbers, tokens=record.tokens.text, labels=json.dumps(contents.labels))
    with pytest.raises(RequestError, match="usual_sums"):
        load_record(tmp_path / "a.npz")
