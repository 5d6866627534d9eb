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
from treebanks import CAT, corpora, plain, tally_of

from attncli.corpus.treebank import TreebankFormat
from attncli.features.probe.counting import CountedTrees, _read
from attncli.models.opening import Opening

TREES = CountedTrees(Opening("of nothing"), {"model": "0"}, TreebankFormat(), None, layers=2, heads=3, threads=1)


@given(corpora(), st.lists(st.tuples(st.sampled_from(["long", "odd"]), st.text(), st.integers(1, 9))))
def test_what_is_kept_of_a_shard_is_all_of_it(corpus, skipped):
    found = tally_of(corpus)
    for why, file, line in skipped:
        found = found.plus_skipped(why, file, line)
    assert plain(TREES.unsealed(TREES.sealed(found))) == plain(found)
    assert TREES.sealed(TREES.unsealed(TREES.sealed(found))) == TREES.sealed(found)


def kept():
    found = tally_of([(np.ones((2, 3, 5, 5), dtype=np.float32), CAT)]).plus_skipped("long", "a", 1)
    about, arrays = TREES.saved(found)
    return json.loads(json.dumps(about)), {name: array.copy() for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda about, arrays: about.update(sentences=-1), "sentences is -1"),
        (lambda about, arrays: about.update(more=1), "does not know"),
        (lambda about, arrays: about.pop("edges"), "has no edges"),
        (lambda about, arrays: about["distances"][0].update(count=0), "count is 0"),
        (lambda about, arrays: about["distances"][0].update(offset=1.5), "offset is 1.5"),
        (lambda about, arrays: about["distances"][1].update(about["distances"][0]), "says something twice"),
        (lambda about, arrays: about["distances"].pop(), "shapes are another model's"),
        (lambda about, arrays: about["skips"].append(about["skips"][0]), "says something twice"),
        (lambda about, arrays: about["skips"][0].update(line=0), "line is 0"),
        (lambda about, arrays: arrays.update(tree_edges=arrays["tree_edges"][:1]), "shapes are another model's"),
        (lambda about, arrays: arrays.update(tree_edges=arrays["tree_edges"] + 0.0), "no whole numbers"),
        (lambda about, arrays: arrays.pop("found_at"), "shapes are another model's"),
        (lambda about, arrays: arrays["found_at"].fill(5), "other words than there are"),
        (lambda about, arrays: arrays["layer_edges"].fill(-1), "other edges than there are"),
    ],
)
def test_what_no_sentences_have_is_not_taken(change, why):
    TREES.loaded(*kept())
    about, arrays = kept()
    change(about, arrays)
    with pytest.raises(ValueError, match=why):
        TREES.loaded(about, arrays)


def test_work_is_small_and_what_is_asked_for_otherwise_is_another(minilm):
    work = CountedTrees.of(minilm, TreebankFormat(), None)
    away = pickle.loads(pickle.dumps(work.without_model()))
    assert len(pickle.dumps(away)) < 5000 and away == work.without_model() and away.digest == work.digest
    others = [
        CountedTrees.of(minilm.without("3.1"), TreebankFormat(), None),
        CountedTrees.of(minilm, TreebankFormat(sample=0.5), None),
    ]
    assert len({one.digest for one in [work, *others]}) == 3
    assert work.at({"threads": 7}, 0).fixed == {"threads": 7} and work.at(None, 9) == work
    assert work.on("cuda").opening.device == "cuda"


# --- the order of sentences ------------------------------------------------------------------------------


TREEBANK = str(Path(__file__).parents[2] / "sample_inputs" / "treebank.conllu")


@pytest.fixture(scope="module")
def placed():
    return [(TREEBANK, sentence) for sentence in sentences(TREEBANK)]


@pytest.fixture(scope="module")
def each():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_sentences_come_in_an_order_of_chance_that_is_always_the_same(minilm, placed, each):
    texts, again = ([sentence.text for _, _, sentence in _read(minilm, placed, None, each)] for _ in range(2))
    given = [sentence.text for _, sentence in placed]
    assert texts == again != given and sorted(texts) == sorted(given)
    lengths = [len(record.tokens) for record, _, _ in _read(minilm, placed, None, each)]
    assert min(lengths[:10]) < np.median(lengths) < max(lengths[:10])
