"""A treebank is counted: the order of its sentences, and saved sums of a shard."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from corpora import sentences
from hypothesis import given
from hypothesis import strategies as st
from treebanks import corpora, plain, tally_of

from attncli.features.probe.counting import CountedTrees, _read
from attncli.models.opening import Opening

TREES = CountedTrees(Opening("of nothing"), {"model": "0"}, None, layers=2, heads=3, threads=1)


@given(corpora(), st.lists(st.tuples(st.sampled_from(["long", "odd"]), st.text(), st.integers(1, 9))))
def test_what_is_kept_of_a_shard_is_all_of_it(corpus, skipped):
    found = tally_of(corpus)
    for why, file, line in skipped:
        found = found.plus_skipped(why, file, line)
    about, arrays = TREES.saved(found)
    assert plain(TREES.loaded(json.loads(json.dumps(about)), arrays)) == plain(found)


def test_work_is_small_and_what_is_asked_for_otherwise_is_another(minilm):
    work = CountedTrees.of(minilm, None)
    away = pickle.loads(pickle.dumps(work.without_model()))
    assert len(pickle.dumps(away)) < 5000 and away == work.without_model() and away.digest == work.digest
    assert CountedTrees.of(minilm.without("3.1"), None).digest != work.digest
    assert work.on("cuda").opening.device == "cuda"


# --- the order of sentences ------------------------------------------------------------------------------


TREEBANK = str(Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu")


@pytest.fixture(scope="module")
def placed():
    return sentences(TREEBANK)


@pytest.fixture(scope="module")
def each():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_sentences_come_in_an_order_of_chance_that_is_always_the_same(minilm, placed, each):
    texts, again = ([sentence.text for _, sentence in _read(minilm, placed, None, each)] for _ in range(2))
    given = [sentence.text for sentence in placed]
    assert texts == again != given and sorted(texts) == sorted(given)
    lengths = [len(record.tokens) for record, _ in _read(minilm, placed, None, each)]
    assert min(lengths[:10]) < np.median(lengths) < max(lengths[:10])
